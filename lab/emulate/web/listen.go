package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// portTries is the number of attempts to find a port that is free on all addresses of
// the web.
const portTries = 20

// Listen opens all sockets; then Port and all URLs are final.
func (w *Web) Listen() error {
	if w.listeners != nil {
		return nil
	}
	addrs := w.addresses()
	for try := 1; ; try++ {
		port, lns, err := w.listenAll(addrs, w.cfg.Port)
		if err == nil {
			w.listeners = lns
			w.setPort(port)
			break
		}
		if w.cfg.Port != 0 || try == portTries {
			return err
		}
	}
	if w.cfg.Bind == "" {
		return nil
	}
	ln, err := net.Listen("tcp", w.cfg.Bind)
	if err != nil {
		w.Close()
		return fmt.Errorf("web: listen: %w", err)
	}
	w.bind = ln
	return nil
}

// addresses returns the distinct addresses of the sites served here.
func (w *Web) addresses() []netip.Addr {
	var addrs []netip.Addr
	seen := make(map[netip.Addr]bool)
	for _, s := range w.sites {
		if !s.served {
			continue
		}
		for _, a := range w.cfg.Addrs(s.id) {
			if !seen[a] {
				seen[a] = true
				addrs = append(addrs, a)
			}
		}
	}
	return addrs
}

// listenAll opens one port on all addrs; if port is 0, the port that the first gets.
func (w *Web) listenAll(addrs []netip.Addr, port int) (int, []net.Listener, error) {
	open := w.cfg.Open
	if open == nil {
		open = func(at netip.AddrPort) (net.Listener, error) {
			return net.Listen("tcp", at.String())
		}
	}
	var lns []net.Listener
	for _, a := range addrs {
		ln, err := open(netip.AddrPortFrom(a, uint16(port)))
		if err != nil {
			closeAll(lns)
			return 0, nil, fmt.Errorf("web: listen: %w", err)
		}
		lns = append(lns, ln)
		port = ln.Addr().(*net.TCPAddr).Port
	}
	return port, lns, nil
}

func closeAll(lns []net.Listener) {
	for _, ln := range lns {
		ln.Close()
	}
}

// BindAddr returns the additional address, or the zero value.
func (w *Web) BindAddr() netip.AddrPort {
	if w.bind == nil {
		return netip.AddrPort{}
	}
	return w.bind.Addr().(*net.TCPAddr).AddrPort()
}

// Close closes the sockets that Listen opened. It is only needed without Run.
func (w *Web) Close() error {
	closeAll(w.listeners)
	if w.bind != nil {
		w.bind.Close()
	}
	return nil
}

// Run serves until ctx ends and then returns nil; it returns an error if a socket fails.
// It calls Listen unless that was done. It leaves no goroutine running.
func (w *Web) Run(ctx context.Context) error {
	if err := w.Listen(); err != nil {
		return err
	}
	sites, extra := w.server(w.serveSite, newVisits(&w.recorder)), w.server(w.serveExtra, nil)
	failed := make(chan error, len(w.listeners)+1)
	serve := func(srv *http.Server, ln net.Listener) { failed <- srv.Serve(ln) }
	running := len(w.listeners)
	for _, ln := range w.listeners {
		go serve(sites, ln)
	}
	if w.bind != nil {
		running++
		go serve(extra, w.bind)
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		running--
	}
	sites.Close()
	extra.Close()
	for range running {
		<-failed
	}
	w.conns.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// server returns a server with connections that Run can wait for. It reports their
// states to seen, if that is not nil.
func (w *Web) server(h http.HandlerFunc, seen *visits) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(w.logger.Handler(), slog.LevelDebug),
		ConnContext:       countRequests,
		ConnState: func(c net.Conn, st http.ConnState) {
			seen.changed(c, st)
			switch st {
			case http.StateNew:
				w.conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				w.conns.Done()
			}
		},
	}
}
