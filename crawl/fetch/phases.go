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

// stopwatch notes when the phases of one attempt began and ended. Its hooks
// are called by net/http's goroutines, some of them after the attempt is over.
type stopwatch struct {
	mu        sync.Mutex
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

// connected notes the end of the TCP handshake.
func (w *stopwatch) connected(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connect = took
	if err == nil {
		w.stage = stageTLS
	}
}

// dialTrace returns the hooks for opening a connection.
func (w *stopwatch) dialTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		TLSHandshakeStart: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tlsStart = time.Now()
		},
		TLSHandshakeDone: func(state tls.ConnectionState, _ error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.tls = time.Since(w.tlsStart)
			w.h2 = state.NegotiatedProtocol == "h2"
		},
	}
}

// requestTrace returns the hooks for one request.
func (w *stopwatch) requestTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		WroteHeaders: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.headersUp = true
		},
		WroteRequest: func(httptrace.WroteRequestInfo) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.written = time.Now()
		},
		GotFirstResponseByte: func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.stage = stageAnswer
			w.first = time.Now()
		},
	}
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
