package overlay

import (
	"log/slog"
	"testing"
)

func TestLibraryHandler(t *testing.T) {
	for name, tt := range map[string]struct {
		level slog.Leveler
		want  int
	}{
		"default": {nil, 2}, "debug": {slog.LevelDebug, 4}, "error": {slog.LevelError, 1},
	} {
		for how, derive := range map[string]func(*slog.Logger) *slog.Logger{
			"plain": func(l *slog.Logger) *slog.Logger { return l },
			"With":  func(l *slog.Logger) *slog.Logger { return l.With("logger", "swarm2") },
			"group": func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
		} {
			lines := &logLines{}
			log := derive(slog.New(LibraryHandler(lines.logger().Handler(), tt.level)))
			log.Debug("text")
			log.Info("text")
			log.Warn("text")
			log.Error("text")
			if got := len(lines.with("text")); got != tt.want {
				t.Errorf("%s, %s: %d lines passed, want %d", name, how, got, tt.want)
			}
		}
	}
}
