package fetch

import (
	"crypto/tls"
	"net/http/httptrace"
	"sync"
	"time"

	"peerd/store"
)

// stage is the progress of an attempt; it determines the outcome of an error.
type stage uint8

const (
	stageDial     stage = iota // no TCP connection yet
	stageTLS                   // no TLS session yet
	stageSend                  // no byte of a response yet
	stageResponse              // the response has begun
)

// stopwatch records when the phases of an attempt begin and end. It belongs to a connection and is
// restarted with each request, so that its hooks are created only once. The goroutines of net/http
// call the hooks. With HTTP/2, a hook may be called after the end of its attempt; the next attempt
// then overwrites the time.
type stopwatch struct {
	trace httptrace.ClientTrace

	mu sync.Mutex
	phaseTimes
}

// phaseTimes are the times that the hooks of one attempt recorded.
type phaseTimes struct {
	stage           stage
	connect         time.Duration
	tlsStart        time.Time
	tls             time.Duration
	h2              bool
	headersBuffered bool // the head of the request is in the buffer of the connection
	written         time.Time
	first           time.Time
	end             time.Time
}

func newStopwatch() *stopwatch {
	w := new(stopwatch)
	w.trace = httptrace.ClientTrace{
		TLSHandshakeStart: func() { w.update(func(l *phaseTimes) { l.tlsStart = time.Now() }) },
		TLSHandshakeDone:  w.tlsDone,
		WroteHeaders:      func() { w.update(func(l *phaseTimes) { l.headersBuffered = true }) },
		WroteRequest: func(httptrace.WroteRequestInfo) {
			w.update(func(l *phaseTimes) { l.written = time.Now() })
		},
		GotFirstResponseByte: func() {
			w.update(func(l *phaseTimes) { l.stage, l.first = stageResponse, time.Now() })
		},
	}
	return w
}

func (w *stopwatch) update(what func(*phaseTimes)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what(&w.phaseTimes)
}

// restart discards the times of the last attempt.
func (w *stopwatch) restart() {
	w.update(func(l *phaseTimes) { *l = phaseTimes{} })
}

// connected records the end of the TCP handshake.
func (w *stopwatch) connected(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connect = took
	if err == nil {
		w.stage = stageTLS
	}
}

// tlsDone records the end of the TLS handshake.
func (w *stopwatch) tlsDone(state tls.ConnectionState, _ error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tls = time.Since(w.tlsStart)
	w.h2 = state.NegotiatedProtocol == "h2"
}

// sending records that the request is passed to an open connection.
func (w *stopwatch) sending(h2 bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.h2 = h2
	w.stage = stageSend
	w.written = time.Now() // until the hook is called
}

// stop records the end of the body, or of the part of it that is read.
func (w *stopwatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = time.Now()
}

// reached returns the stage of the attempt, and whether it uses HTTP/2.
func (w *stopwatch) reached() (st stage, h2, headersUp bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stage, w.h2, w.headersBuffered
}

// timing returns the recorded times. Phases that did not occur are zero.
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
