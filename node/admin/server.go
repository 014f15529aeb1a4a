package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"
)

// serverName is the Server header, by which the client tells a peer from
// whatever else may answer on a port.
const serverName = "peerd-admin"

// grace is how long requests in flight may take to end when the server stops.
const grace = 2 * time.Second

// Config is what a Server needs.
type Config struct {
	// Addr is HOST:PORT to listen on; port 0 takes any free one.
	Addr string
	// File is the path of api.json.
	File string
	// Node is the peer to look into.
	Node Node
	// Logger may be nil: nothing is logged.
	Logger *slog.Logger
}

// Server serves the admin API of one peer.
type Server struct {
	ln    net.Listener
	file  string
	node  Node
	log   *slog.Logger
	token string
}

// Listen opens the socket, so that a port in use is known at once; nothing is
// answered before Run. Who does not call Run calls Close.
func Listen(cfg Config) (*Server, error) {
	if cfg.Node == nil || cfg.File == "" {
		return nil, errors.New("admin: Config without Node or File")
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin API: %w", err)
	}
	return &Server{ln: ln, file: cfg.File, node: cfg.Node, log: log, token: newToken()}, nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close frees the socket of a server that does not run.
func (s *Server) Close() error { return s.ln.Close() }

// Run writes the file by which clients find the server and serves until ctx
// ends. The file is gone when Run returns. It may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.ln.Close()
	if err := writeAPIFile(s.file, apiFile{Addr: s.Addr(), Token: s.token}); err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer os.Remove(s.file)

	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second, // streams extend it write by write
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("admin API: %w", err)
	case <-ctx.Done():
	}
	cut() // handlers see the end now
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer done()
	if err := srv.Shutdown(closing); err != nil {
		srv.Close()
	}
	<-served
	return nil
}
