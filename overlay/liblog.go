package overlay

import (
	"context"
	"log/slog"
)

// libraryHandler handles what libp2p and its packages log: it passes warnings and errors on and
// drops all other records, so that --log-level debug shows this program's debug records and not
// theirs.
type libraryHandler struct{ slog.Handler }

func (h libraryHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && h.Handler.Enabled(ctx, l)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs)}
}

func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name)}
}
