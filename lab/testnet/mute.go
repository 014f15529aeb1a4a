package testnet

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// mutable is a handler that drops all records once off is set. Peers that have not
// stopped when their folder is removed would log errors that mean nothing.
type mutable struct {
	slog.Handler
	off *atomic.Bool
}

func (m mutable) Enabled(ctx context.Context, l slog.Level) bool {
	return !m.off.Load() && m.Handler.Enabled(ctx, l)
}

func (m mutable) Handle(ctx context.Context, r slog.Record) error {
	if m.off.Load() {
		return nil
	}
	return m.Handler.Handle(ctx, r)
}

func (m mutable) WithAttrs(attrs []slog.Attr) slog.Handler {
	return mutable{m.Handler.WithAttrs(attrs), m.off}
}

func (m mutable) WithGroup(name string) slog.Handler {
	return mutable{m.Handler.WithGroup(name), m.off}
}
