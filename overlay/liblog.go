package overlay

import (
	"context"
	"log/slog"
)

// LibraryHandler returns a handler for what libp2p and its packages log: it passes
// records of at least the given level on to h and drops all others, so that --log-level
// debug shows this program's debug records and not theirs. A nil level is
// slog.LevelWarn. For libp2p itself pass the result to gologshim.SetDefaultHandler.
func LibraryHandler(h slog.Handler, level slog.Leveler) slog.Handler {
	if level == nil {
		level = slog.LevelWarn
	}
	return libraryHandler{h, level}
}

type libraryHandler struct {
	next  slog.Handler
	level slog.Leveler
}

func (h libraryHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level.Level() && h.next.Enabled(ctx, l)
}

func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < h.level.Level() {
		return nil
	}
	return h.next.Handle(ctx, r)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.next.WithAttrs(attrs), h.level}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.next.WithGroup(name), h.level}
}
