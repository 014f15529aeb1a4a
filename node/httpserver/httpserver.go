// Package httpserver runs the HTTP servers of a peer that have no admin rights. It imports only the
// standard library.
package httpserver

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Run serves a handler at a listener, which it closes, until ctx ends. It returns when no request
// is being answered.
func Run(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	requests, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    16 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	cut()
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer done()
	if srv.Shutdown(closing) != nil {
		srv.Close()
	}
	<-served
	return nil
}
