package fetch

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"time"

	"peerd/store"
)

// stage is how far a Do came; it decides what an error means.
type stage uint8

const (
	stageDial   stage = iota // no TCP connection yet
	stageTLS                 // no TLS session yet
	stageSend                // the request is on its way, no byte of an answer yet
	stageAnswer              // the answer has begun
)

// stopwatch notes when the phases of one attempt began and ended. It belongs to
// a connection and begins anew with each request: its hooks are made once. They
// are called by net/http's goroutines. Of HTTP/2's, one may come when the
// attempt is over; the next attempt's own call then puts it right.
type stopwatch struct {
	trace httptrace.ClientTrace

	mu sync.Mutex
	laps
}

// laps is what the hooks of one attempt noted.
type laps struct {
	stage     stage
	connect   time.Duration
	tlsStart  time.Time
	tls       time.Duration
	h2        bool
	headersUp bool // the head of the request was handed to the connection's buffer
	written   time.Time
	first     time.Time
	end       time.Time
}

func newStopwatch() *stopwatch {
	w := new(stopwatch)
	w.trace = httptrace.ClientTrace{
		TLSHandshakeStart:    func() { w.note(func(l *laps) { l.tlsStart = time.Now() }) },
		TLSHandshakeDone:     w.handshaken,
		WroteHeaders:         func() { w.note(func(l *laps) { l.headersUp = true }) },
		WroteRequest:         func(httptrace.WroteRequestInfo) { w.note(func(l *laps) { l.written = time.Now() }) },
		GotFirstResponseByte: func() { w.note(func(l *laps) { l.stage, l.first = stageAnswer, time.Now() }) },
	}
	return w
}

func (w *stopwatch) note(what func(*laps)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what(&w.laps)
}

// restart forgets the attempt before.
func (w *stopwatch) restart() {
	w.note(func(l *laps) { *l = laps{} })
}

// connected notes the end of the TCP handshake.
func (w *stopwatch) connected(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connect = took
	if err == nil {
		w.stage = stageTLS
	}
}

// handshaken notes the end of the TLS handshake.
func (w *stopwatch) handshaken(state tls.ConnectionState, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tls = time.Since(w.tlsStart)
	w.h2 = state.NegotiatedProtocol == "h2"
}

// sending notes that the request is handed over to an open connection.
func (w *stopwatch) sending(h2 bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h2 = h2
	w.stage = stageSend
	w.written = time.Now() // until the hook knows better
}

// stop notes the end of the body, or of what is read of it.
func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = time.Now()
}

// reached returns how far the attempt came, and whether over HTTP/2.
func (w *stopwatch) reached() (st stage, h2, headersUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stage, w.h2, w.headersUp
}

// timing returns what the watch saw. Phases that did not happen are zero.
func (w *stopwatch) timing(reused bool) store.Timing {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := store.Timing{Connect: w.connect, TLS: w.tls, Reused: reused}
	if !w.first.IsZero() {
		t.FirstByte = max(w.first.Sub(w.written), 0)
		if !w.end.IsZero() {
			t.Body = max(w.end.Sub(w.first), 0)
		}
	}
	return t
}
