// Package httpserver runs the HTTP servers of a peer. It imports only the standard library.
package httpserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Server serves a handler at a listener.
type Server struct {
	name    string
	ln      net.Listener
	handler http.Handler
	log     *slog.Logger
}

// New returns a Server. The caller must call Run or Close. The errors of Run begin with name.
func New(name string, ln net.Listener, h http.Handler, log *slog.Logger) *Server {
	return &Server{name: name, ln: ln, handler: h, log: log}
}

// URL returns the URL of the path "/".
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() + "/" }

// Close closes the listener of a Server that does not run.
func (s *Server) Close() error { return s.ln.Close() }

// Run serves until ctx ends. It returns when no request is being answered. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if err := Serve(ctx, s.ln, &http.Server{
		Handler:      s.handler,
		BaseContext:  func(net.Listener) context.Context { return requests },
		WriteTimeout: 5 * time.Minute,
	}, cut, s.log); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return nil
}

// Serve has srv serve at a listener, which it closes, until ctx ends, and returns when no request
// is being answered. It sets the limits on requests. It calls cut at the end: the requests must
// end soon after that.
func Serve(
	ctx context.Context, ln net.Listener, srv *http.Server, cut func(), log *slog.Logger,
) error {
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	srv.ReadHeaderTimeout, srv.ReadTimeout = 5*time.Second, 30*time.Second
	srv.IdleTimeout, srv.MaxHeaderBytes = 30*time.Second, 16<<10
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	var failed error
	select {
	case failed = <-served:
	case <-ctx.Done():
	}
	cut()
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	if srv.Shutdown(closing) != nil {
		srv.Close()
	}
	if failed == nil {
		<-served
	}
	return failed
}

// AllowedHost reports whether a Host header is an IP address or localhost. The browser of a page
// that directed its own name to this machine sends that name.
func AllowedHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	_, err = netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}
