package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"

	"peerd/node/httpserver"
)

// ErrAddr is returned for an address that other machines can reach.
var ErrAddr = errors.New("not an address of this machine alone, such as 127.0.0.1:8090")

// CheckAddr returns an error that matches ErrAddr unless addr is a loopback address and a port.
// There is no access control, so no other machine may connect.
func CheckAddr(addr string) error {
	if a, err := netip.ParseAddrPort(addr); err != nil || !a.Addr().IsLoopback() {
		return fmt.Errorf("%.60q: %w", addr, ErrAddr)
	}
	return nil
}

// Server serves a Handler on a socket.
type Server struct {
	ln  net.Listener
	h   http.Handler
	log *slog.Logger
}

// Listen opens a socket at a loopback address; port 0 is any free one. The caller must call Run or
// Close.
func Listen(addr string, cfg Config) (*Server, error) {
	if err := CheckAddr(addr); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	h := New(cfg)
	return &Server{ln: ln, h: h, log: h.cfg.Logger}, nil
}

// URL returns the URL of the start page.
func (s *Server) URL() string { return "http://" + s.ln.Addr().String() + "/" }

// Close closes the socket of a server that does not run.
func (s *Server) Close() error { return s.ln.Close() }

// Run serves until ctx ends. It returns when no request is being answered. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	if err := httpserver.Run(ctx, s.ln, s.h, s.log); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}
