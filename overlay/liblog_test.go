package overlay

import (
	"log/slog"
	"testing"
)

func TestLibraryHandler(t *testing.T) {
	for how, derive := range map[string]func(*slog.Logger) *slog.Logger{
		"plain": func(l *slog.Logger) *slog.Logger { return l },
		"With":  func(l *slog.Logger) *slog.Logger { return l.With("logger", "swarm2") },
		"group": func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
	} {
		lines := &logLines{}
		log := derive(slog.New(libraryHandler{lines.logger().Handler()}))
		log.Debug("text")
		log.Info("text")
		log.Warn("text")
		log.Error("text")
		if got := len(lines.with("text")); got != 2 {
			t.Errorf("%s: %d lines passed, want 2", how, got)
		}
	}
}
