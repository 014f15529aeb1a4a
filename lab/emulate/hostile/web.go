package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
)

// Options configure Serve. The zero value serves all cases.
type Options struct {
	// Cases are the names of the cases to serve; none means all.
	Cases []string
	// Port is the port of all hosts; 0 chooses a free one.
	Port int
	// Endless keeps the traps open. Otherwise a case answers 410 after twice the
	// requests of its Bound: the crawler has failed, and the test may end.
	Endless bool
}

// Web is a hostile web that is being served. Its methods may be called concurrently.
type Web struct {
	opts  Options
	cases []Case
	port  int
	rec   *recorder

	ctx    context.Context // ends when the web closes
	cancel context.CancelFunc
	lns    []net.Listener
	wg     sync.WaitGroup
}

// portTries is the number of attempts to find a port that is free at all addresses.
const portTries = 20

// Serve serves a web until ctx ends or Close is called. It returns an error if a case is
// unknown or no port is available.
func Serve(ctx context.Context, o Options) (*Web, error) {
	w := &Web{opts: o, rec: newRecorder()}
	for _, c := range Cases() {
		if len(o.Cases) == 0 || slices.Contains(o.Cases, c.Name) {
			w.cases = append(w.cases, c)
		}
	}
	if len(o.Cases) > 0 && len(w.cases) != len(o.Cases) {
		return nil, fmt.Errorf("hostile: only %d of the cases %v exist", len(w.cases), o.Cases)
	}
	if err := w.listen(); err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(ctx)
	for _, ln := range w.lns {
		w.wg.Go(func() { w.accept(ln) })
		context.AfterFunc(w.ctx, func() { ln.Close() })
	}
	return w, nil
}

// Close ends all connections and returns when all goroutines have returned.
func (w *Web) Close() {
	w.cancel()
	w.wg.Wait()
}

func (w *Web) accept(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			w.wg.Go(func() { w.serveConn(nc) })
		}
	}
}

// portalAddr is the address of the portal.
var portalAddr = netip.AddrFrom4([4]byte{127, 66, 255, 10})

func (w *Web) listen() error {
	must, may := []netip.Addr{portalAddr}, []netip.Addr(nil)
	for _, c := range w.cases {
		must = append(must, c.addr, c.forbid)
		for _, a := range c.extra {
			if a.Is4() {
				must = append(must, a)
			} else {
				may = append(may, a) // not every machine has IPv6
			}
		}
	}
	for try := 1; ; try++ {
		err := w.listenAll(must)
		if err == nil {
			break
		}
		if w.opts.Port != 0 || try == portTries {
			return fmt.Errorf("hostile: listen: %w", err)
		}
	}
	for _, a := range may {
		if ln, err := net.Listen("tcp",
			netip.AddrPortFrom(a, uint16(w.port)).String()); err == nil {
			w.lns = append(w.lns, ln)
		}
	}
	return nil
}

// listenAll opens one port at all addresses, or none.
func (w *Web) listenAll(addrs []netip.Addr) error {
	var lns []net.Listener
	port := w.opts.Port
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, a := range slices.Compact(addrs) {
		ln, err := net.Listen("tcp", net.JoinHostPort(a.String(), strconv.Itoa(port)))
		if err != nil {
			for _, l := range lns {
				l.Close()
			}
			return err
		}
		lns = append(lns, ln)
		port = ln.Addr().(*net.TCPAddr).Port
	}
	w.lns, w.port = lns, port
	return nil
}

// Port returns the port of all hosts.
func (w *Web) Port() int { return w.port }

// Cases returns the cases that are served.
func (w *Web) Cases() []Case { return slices.Clone(w.cases) }

// Allow returns the networks, which are not public, that a crawler must be allowed to
// dial: the /24s of the cases and of the portal.
func (w *Web) Allow() []netip.Prefix {
	ps := []netip.Prefix{netip.PrefixFrom(portalAddr, 24).Masked()}
	for _, c := range w.cases {
		ps = append(ps, netip.PrefixFrom(c.addr, 24).Masked())
	}
	return ps
}

// Seeds returns the URLs of the seeds of a case, or nil if it is not served.
func (w *Web) Seeds(name string) []string {
	var urls []string
	for _, c := range w.cases {
		if c.Name != name {
			continue
		}
		for _, s := range c.Seeds {
			urls = append(urls, w.url(s))
		}
	}
	return urls
}

// url returns the URL of host/path.
func (w *Web) url(s string) string {
	host, path := s, "/"
	for i := range len(s) {
		if s[i] == '/' {
			host, path = s[:i], s[i:]
			break
		}
	}
	return "http://" + host + ":" + strconv.Itoa(w.port) + path
}
