package admin

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// shutdownTimeout is the time for requests in flight to end when the server stops.
const shutdownTimeout = 2 * time.Second

// requests are the requests that a Server answers. They are drained once cut was called.
type requests struct {
	ctx context.Context // of all requests
	cut context.CancelFunc

	mu       sync.Mutex
	handlers sync.WaitGroup
	conns    map[net.Conn]struct{} // those of the handlers
}

func newRequests() *requests {
	q := &requests{conns: map[net.Conn]struct{}{}}
	q.ctx, q.cut = context.WithCancel(context.Background())
	return q
}

// connKey is the key of the net.Conn in the context of a request.
type connKey struct{}

// withConn is the ConnContext of the http.Server.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// begin counts a handler until end is called. It fails once the requests are drained.
func (q *requests) begin(r *http.Request) (end func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ctx.Err() != nil {
		return nil, ErrStopping
	}
	q.handlers.Add(1)
	conn, ok := r.Context().Value(connKey{}).(net.Conn)
	if ok {
		q.conns[conn] = struct{}{}
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.conns, conn)
		q.handlers.Done()
	}, nil
}

// drain ends all handlers and waits for them. It closes the connections of those that do not end in
// time, because the client may have stopped reading.
func (q *requests) drain() {
	q.mu.Lock()
	q.cut()
	q.mu.Unlock()
	late := time.AfterFunc(shutdownTimeout, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for conn := range q.conns {
			conn.Close()
		}
	})
	defer late.Stop()
	q.handlers.Wait()
}
