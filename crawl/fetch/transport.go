package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"time"

	"peerd/store"
)

// Transport sends the requests of a protocol over HTTP, such as those of crawllets, to one address.
// What Config says about connections applies: Guard, Deny, Dial, Proxy, TLS and the times of the
// handshakes. What it says about responses does not, because nothing of them is kept; the caller
// limits them. It is safe for concurrent use.
type Transport struct {
	f    *Fetcher
	addr netip.Addr
	http *http.Transport
}

var _ http.RoundTripper = (*Transport)(nil)

// Transport returns a Transport that connects to addr whatever the host of a request, and waits for
// the head of a response for at most wait. The caller closes it.
func (f *Fetcher) Transport(addr netip.Addr, wait time.Duration) *Transport {
	t := &Transport{f: f, addr: addr.Unmap(), http: f.transport.Clone()}
	t.http.ResponseHeaderTimeout, t.http.DialContext = wait, t.dial
	return t
}

// Close closes the idle connections.
func (t *Transport) Close() { t.http.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	u := store.URL(r.URL.String())
	to, err := parseTarget(u)
	if err == nil {
		err = errors.Join(checkPort(to.port), t.f.mayDial(u, t.addr))
	}
	if err != nil {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, err
	}
	return t.http.RoundTrip(r)
}

// dial opens a connection to the address, at the port of hostPort.
func (t *Transport) dial(ctx context.Context, network, hostPort string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, t.f.cfg.ConnectTimeout)
	defer cancel()
	c, err := t.f.dial(ctx, network, net.JoinHostPort(t.addr.String(), port))
	if err != nil {
		return nil, err
	}
	if t.f.cfg.Proxy == "" {
		if _, err := t.f.checkRemote(c); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// MaxBody returns how many bytes of a body are read, unless a Request says otherwise.
func (f *Fetcher) MaxBody() int64 { return f.cfg.MaxBody }

// Denied returns why the operator or the site does not want a URL at an address to be requested;
// nil if neither has said so.
func (f *Fetcher) Denied(u store.URL, addr netip.Addr) error { return f.cfg.Deny.Check(u, addr) }
