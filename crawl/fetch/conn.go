package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"sync/atomic"
	"time"
)

// conn is one open connection, used by one Do at a time.
type conn struct {
	key     connKey
	cc      *http.ClientConn
	watch   *stopwatch
	wire    *wire
	remote  netip.AddrPort // of the server, also behind a proxy
	tls     *TLSInfo       // of the session; nil until the first answer, or without TLS
	h2      bool
	idleFor time.Duration // how long it may wait for its next request

	socket socket      // for stale
	timer  *time.Timer // the pool's: ends the idle connection
}

// connKey says whom a connection belongs to.
type connKey struct {
	scheme string
	host   string // host:port
	addr   netip.Addr
}

// close closes the connection at once.
func (c *conn) close() { c.cc.Close() }

// usable says whether the connection can take one more request.
func (c *conn) usable() bool {
	return c.cc.Err() == nil && c.cc.Available() > 0 && !c.wire.ended.Load()
}

// wire watches a connection from below TLS.
type wire struct {
	net.Conn
	written atomic.Int64 // bytes
	ended   atomic.Bool  // reading met the end, or what counts as such
	resting atomic.Bool  // idle since the last write: whatever comes answers nothing
}

// Read reads and notes the end. Bytes that come unasked on an idle connection
// (a 408, a TLS alert, a trap) are an end, too: net/http might take them for
// the answer to a request that is just being sent.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 && w.resting.Load() {
		n, err = 0, io.EOF
	}
	if err != nil {
		w.ended.Store(true)
	}
	return n, err
}

// Write writes and counts.
func (w *wire) Write(p []byte) (int, error) {
	w.resting.Store(false) // before the server can answer
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	return n, err
}

// dialing carries the address to dial, and what came of it, through net/http
// to dialContext and back.
type dialing struct {
	addr   netip.AddrPort
	watch  *stopwatch
	wire   *wire
	remote netip.AddrPort
}

type dialingKey struct{}

// connect opens a connection to addr for t. The guard is the caller's to ask
// for addr; the address really reached is checked here.
func (f *Fetcher) connect(ctx context.Context, t target, key connKey, watch *stopwatch) (*conn, error) {
	d := &dialing{addr: netip.AddrPortFrom(key.addr, t.port), watch: watch}
	ctx = context.WithValue(ctx, dialingKey{}, d)
	ctx = httptrace.WithClientTrace(ctx, &watch.trace)
	cc, err := f.transport.NewClientConn(ctx, key.scheme, t.addr)
	if err != nil {
		if d.wire != nil {
			d.wire.Close() // net/http has done so; twice does no harm
		}
		return nil, err
	}
	_ = d.wire.SetWriteDeadline(time.Time{})
	_, h2, _ := watch.reached()
	return &conn{key: key, cc: cc, watch: watch, wire: d.wire, remote: d.remote, h2: h2, idleFor: f.cfg.IdleTimeout}, nil
}

// dialContext is what net/http calls for a new connection. It pays no heed to
// the name there, which is for TLS and the Host field.
func (f *Fetcher) dialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	d, ok := ctx.Value(dialingKey{}).(*dialing)
	if !ok {
		return nil, errors.New("fetch: dialled without an address")
	}
	dctx, cancel := context.WithTimeout(ctx, f.cfg.ConnectTimeout)
	defer cancel()
	start := time.Now()
	raw, err := f.dial(dctx, network, d.addr.String())
	d.watch.connected(time.Since(start), err)
	if err != nil {
		if dctx.Err() != nil {
			err = fmt.Errorf("%w: %w", dctx.Err(), err) // dialers word their timeouts in many ways
		}
		return nil, err
	}
	d.remote = d.addr
	if f.cfg.Proxy == "" {
		if d.remote, err = f.checkRemote(raw); err != nil {
			raw.Close()
			return nil, err
		}
	}
	// net/http's HTTP/2 writes its preface without looking at the context.
	_ = raw.SetWriteDeadline(time.Now().Add(f.cfg.TLSTimeout))
	d.wire = &wire{Conn: raw}
	return d.wire, nil
}

// checkRemote asks the guard for the address that a connection really reached,
// and returns it.
func (f *Fetcher) checkRemote(c net.Conn) (netip.AddrPort, error) {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: connected to %v", ErrForbiddenAddr, c.RemoteAddr())
	}
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	return remote, f.cfg.Guard.Check(remote.Addr())
}
