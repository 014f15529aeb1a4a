package fetch

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"peerd/store"
)

// conn is an open connection, used by one call of Do at a time.
type conn struct {
	key         connKey
	cc          *http.ClientConn
	watch       *stopwatch
	wire        *wire
	remote      netip.AddrPort // of the server, also with a proxy
	tls         *TLSInfo       // nil before the first response, and without TLS
	h2          bool
	fresh       bool          // no request was sent
	idleTimeout time.Duration // maximum time until the next request

	socket socket // for stale

	// Of the pool. They are guarded by its mutex.
	timer *time.Timer   // closes the idle connection
	place *list.Element // in pool.order if the connection is idle, else nil
}

// connKey identifies the connections that a request can use.
type connKey struct {
	scheme string
	host   string // host:port
	addr   netip.Addr
}

// name returns the name of the host.
func (k connKey) name() string {
	if i := strings.LastIndexByte(k.host, ':'); i >= 0 {
		return strings.Trim(k.host[:i], "[]")
	}
	return k.host
}

// close closes the connection at once.
func (c *conn) close() { c.cc.Close() }

// usable reports whether the connection can carry another request.
func (c *conn) usable() bool {
	return c.cc.Err() == nil && c.cc.Available() > 0 && !c.wire.ended.Load()
}

// wire is the connection below TLS. It records its state.
type wire struct {
	net.Conn
	written atomic.Int64 // bytes
	ended   atomic.Bool  // no more data can be read
	idle    atomic.Bool  // no request was written since the last response
	due     atomic.Bool  // the last request has not been answered in full
}

// Read reads and records the end of the connection. Data on an idle connection (a 408, a TLS alert,
// an attack) is treated as its end: net/http could take it for the response to a request that is
// being sent.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if n > 0 && w.idle.Load() {
		n, err = 0, io.EOF
	}
	if err != nil {
		w.ended.Store(true)
	}
	return n, err
}

// Write writes and counts bytes.
func (w *wire) Write(p []byte) (int, error) {
	w.idle.Store(false) // before the server can respond
	n, err := w.Conn.Write(p)
	w.written.Add(int64(n))
	return n, err
}

// Close closes the connection. If a response is due, the kernel must not repeat what the server
// has not acknowledged (SO_LINGER, socket(7)): the request would arrive when the path works again,
// although it was given up here, and beside the next one.
func (w *wire) Close() error {
	if c, ok := w.Conn.(interface{ SetLinger(sec int) error }); ok && w.due.Load() {
		_ = c.SetLinger(0) // fails if it is closed
	}
	return w.Conn.Close()
}

// dialState passes the addresses to dial through net/http to dialContext, and the result back.
type dialState struct {
	addr   netip.AddrPort // afterwards the one that answered
	more   Addrs
	watch  *stopwatch
	wire   *wire
	remote netip.AddrPort
}

type dialStateKey struct{}

// connect opens a connection for t to the address of key, or to the one of more that answers first,
// and returns it with that address. The caller checks the address of key with the guard; connect
// checks the others, and the address that was reached.
func (f *Fetcher) connect(
	ctx context.Context, t target, key connKey, more Addrs,
	watch *stopwatch,
) (*conn, netip.Addr, error) {
	d := &dialState{addr: netip.AddrPortFrom(key.addr, t.port), more: more, watch: watch}
	ctx = context.WithValue(ctx, dialStateKey{}, d)
	ctx = httptrace.WithClientTrace(ctx, &watch.trace)
	cc, err := f.transport.NewClientConn(ctx, key.scheme, t.addr)
	if err != nil {
		if d.wire != nil {
			d.wire.Close() // net/http has closed it; closing it again is harmless
		}
		return nil, d.addr.Addr(), err
	}
	_ = d.wire.SetWriteDeadline(time.Time{})
	_, h2, _ := watch.reached()
	key.addr = d.addr.Addr()
	return &conn{
		key: key, cc: cc, watch: watch, wire: d.wire, remote: d.remote, h2: h2, fresh: true,
		idleTimeout: f.cfg.IdleTimeout,
	}, key.addr, nil
}

// tlsTimeout bounds a TLS handshake.
const tlsTimeout = 10 * time.Second

// dialContext is called by net/http for a new connection. It ignores the name, which is used for
// TLS and the Host field.
func (f *Fetcher) dialContext(ctx context.Context, network, _ string) (net.Conn, error) {
	d, ok := ctx.Value(dialStateKey{}).(*dialState)
	if !ok {
		return nil, errors.New("fetch: dialled without an address")
	}
	start := time.Now()
	won, err := f.dialFirst(ctx, network, d.addr, d.more)
	if err != nil {
		d.watch.connected(time.Since(start), err)
		return nil, err
	}
	d.watch.connected(won.took, nil)
	raw := won.conn
	d.addr, d.remote = won.addr, won.addr
	if f.cfg.Proxy == "" {
		if d.remote, err = f.checkRemote(raw); err != nil {
			raw.Close()
			return nil, err
		}
	}
	// The HTTP/2 implementation of net/http writes its preface without regard to the context.
	_ = raw.SetWriteDeadline(time.Now().Add(tlsTimeout))
	d.wire = &wire{Conn: raw}
	return d.wire, nil
}

// checkRemote checks the address that a connection reached with the guard, and returns it.
func (f *Fetcher) checkRemote(c net.Conn) (netip.AddrPort, error) {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%w: connected to %v", ErrForbiddenAddr, c.RemoteAddr())
	}
	remote = netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port())
	return remote, f.mayDial("", remote.Addr())
}

// mayDial returns nil if a connection for a URL at an address may be opened. An address of another
// host is checked with "".
func (f *Fetcher) mayDial(u store.URL, a netip.Addr) error {
	return errors.Join(f.cfg.Deny.Check(u, a), f.cfg.Guard.Check(a))
}
