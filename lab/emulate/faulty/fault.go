package faulty

import (
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A Fault changes the answers of a site. It gets the handler that answers without it.
type Fault func(http.Handler) http.Handler

// Status answers every request with a status and no body. With retryAfter, an answer says for
// how many seconds the client should wait.
func Status(code, retryAfter int) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if retryAfter > 0 {
				rw.Header().Set("Retry-After", strconv.Itoa(retryAfter))
			}
			rw.WriteHeader(code)
		})
	}
}

// PagesOnly applies a fault to everything but robots.txt.
func PagesOnly(f Fault) Fault {
	return func(next http.Handler) http.Handler {
		broken := f(next)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				next.ServeHTTP(rw, r)
				return
			}
			broken.ServeHTTP(rw, r)
		})
	}
}

// Some applies a fault to a share of the requests, from 0 to 1, chosen by the seed and their order.
func Some(share float64, seed uint64, f Fault) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 2))
	return func(next http.Handler) http.Handler {
		broken := f(next)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			mu.Lock()
			chosen := rng.Float64() < share
			mu.Unlock()
			if chosen {
				broken.ServeHTTP(rw, r)
				return
			}
			next.ServeHTTP(rw, r)
		})
	}
}

// Reset sends half of the body and resets the connection (HTTP/2: the stream).
func Reset(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&halfWriter{ResponseWriter: rw}, r)
		flush(rw)
		if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			conn.Close()
		}
		panic(http.ErrAbortHandler)
	})
}

// Hang sends half of the body and then nothing until the client disconnects.
func Hang(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&halfWriter{ResponseWriter: rw}, r)
		flush(rw)
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	})
}

// Slow limits the body of an answer to a number of bytes per second.
func Slow(bytesPerSecond int) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&slowWriter{ResponseWriter: rw, r: r, rate: bytesPerSecond}, r)
		})
	}
}

func flush(rw http.ResponseWriter) {
	_ = http.NewResponseController(rw).Flush() // a client that has gone is seen by the next write
}

// halfWriter writes the first half of each write.
type halfWriter struct{ http.ResponseWriter }

func (w *halfWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *halfWriter) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(p[:len(p)/2]); err != nil {
		return 0, err
	}
	return len(p), nil
}

// slowWriter writes at a rate, ten times a second.
type slowWriter struct {
	http.ResponseWriter
	r    *http.Request
	rate int
}

func (w *slowWriter) Write(p []byte) (n int, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n < len(p) && err == nil {
		part := min(max(w.rate/10, 1), len(p)-n)
		if part, err = w.ResponseWriter.Write(p[n : n+part]); err != nil {
			return n + part, err
		}
		n += part
		flush(w.ResponseWriter)
		select {
		case <-tick.C:
		case <-w.r.Context().Done():
			err = w.r.Context().Err()
		}
	}
	return n, err
}
