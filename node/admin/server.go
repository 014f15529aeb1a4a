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

// serverName is the Server header, by which the client recognizes a peer.
const serverName = "peerd-admin"

// Config configures a Server.
type Config struct {
	// Addr is HOST:PORT to listen on; port 0 takes any free one.
	Addr string
	// File is the path of api.json.
	File string
	// ReadTokenFile is the path of a second file, with a token that permits only to read; "":
	// there is none.
	ReadTokenFile string
	// Node is the peer to serve.
	Node Node
	// Metrics answers /metrics; nil: there is no such path.
	Metrics http.Handler
	// Dashboard serves the files below /dashboard/, to everyone; nil: there is no such path.
	Dashboard http.Handler
	// Pprof serves profiles of the process.
	Pprof bool
	// Logger may be nil: no logging.
	Logger *slog.Logger
}

// Server serves the admin API of one peer.
type Server struct {
	ln            net.Listener
	file          string
	readTokenFile string
	node          Node
	metrics       http.Handler
	dashboard     http.Handler
	pprof         bool
	log           *slog.Logger

	token, readToken string
	sessions         *sessions
	requests         *requests
	places           chan struct{} // one element for each stream of events
}

// Listen opens the socket and removes the files of a killed peer, which would mislead clients.
// The server answers requests once Run is called. A caller that does not call Run must call
// Close.
// The caller must make sure that no other peer runs with the same file.
func Listen(cfg Config) (*Server, error) {
	if cfg.Node == nil || cfg.File == "" {
		return nil, errors.New("admin: Config without Node or File")
	}
	s := newServer(cfg)
	ln, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return nil, fmt.Errorf("admin API: %w", err)
	}
	s.ln = ln
	for _, file := range []string{cfg.File, cfg.ReadTokenFile} {
		if file == "" {
			continue
		}
		stale, err := removeStale(file)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("admin API: %w", err), ln.Close())
		}
		if stale {
			s.log.Info("removed the API file of a peer that was killed", "file", file)
		}
	}
	return s, nil
}

// newServer returns a server without a socket.
func newServer(cfg Config) *Server {
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{
		file: cfg.File, readTokenFile: cfg.ReadTokenFile, node: cfg.Node,
		metrics: cfg.Metrics, dashboard: cfg.Dashboard, pprof: cfg.Pprof, log: log,
		token: newToken(), readToken: newToken(), sessions: newSessions(),
		requests: newRequests(), places: make(chan struct{}, maxStreams),
	}
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return s.ln.Addr().String() }

// Close closes the socket of a server that does not run.
func (s *Server) Close() error { return s.ln.Close() }

// Drain ends all requests and refuses later ones with ErrStopping, except those that ask whether
// the peer runs. When it returns, the server calls no method of its Node any more.
func (s *Server) Drain() { s.requests.drain() }

// Run writes the file by which clients find the server, and before it the one with the token for
// reading, and serves until ctx ends. The files are gone when Run returns. Run may be called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.ln.Close()
	if s.readTokenFile != "" {
		if err := writeTokenFile(s.readTokenFile, s.readToken); err != nil {
			return fmt.Errorf("admin API: %w", err)
		}
		defer os.Remove(s.readTokenFile)
	}
	if err := writeAPIFile(s.file, apiFile{Addr: s.Addr(), Token: s.token}); err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer os.Remove(s.file)

	srv := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return s.requests.ctx },
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second, // streams extend it with every write
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(s.ln) }()
	var failed error
	select {
	case failed = <-served:
		failed = fmt.Errorf("admin API: %w", failed)
	case <-ctx.Done():
	}
	s.Drain()
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer done()
	if err := srv.Shutdown(closing); err != nil {
		srv.Close()
	}
	if failed == nil {
		<-served
	}
	return failed
}
