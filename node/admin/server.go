package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"peerd/node/httpserver"
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
	cfg Config // with a Logger
	ln  net.Listener

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
			s.cfg.Logger.Info("removed the API file of a peer that was killed", "file", file)
		}
	}
	return s, nil
}

// newServer returns a server without a socket.
func newServer(cfg Config) *Server {
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Server{
		cfg:   cfg,
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
	if s.cfg.ReadTokenFile != "" {
		if err := writeTokenFile(s.cfg.ReadTokenFile, s.readToken); err != nil {
			return fmt.Errorf("admin API: %w", err)
		}
		defer os.Remove(s.cfg.ReadTokenFile)
	}
	if err := writeAPIFile(s.cfg.File, apiFile{Addr: s.Addr(), Token: s.token}); err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	defer os.Remove(s.cfg.File)

	srv := &http.Server{
		Handler:      s.handler(),
		BaseContext:  func(net.Listener) context.Context { return s.requests.ctx },
		ConnContext:  withConn,
		WriteTimeout: 60 * time.Second, // streams extend it with every write
	}
	if err := httpserver.Serve(ctx, s.ln, srv, s.Drain, s.cfg.Logger); err != nil {
		return fmt.Errorf("admin API: %w", err)
	}
	return nil
}
