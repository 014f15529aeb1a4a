package overlaytest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Log returns a Logger whose lines, of all levels, belong to the test's output if
// tests are run with -v, and go nowhere if not. Lines that come when the test
// has ended are dropped.
func Log(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	o := &output{to: t.Output()}
	t.Cleanup(o.close)
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// output is a test's output until it is closed.
type output struct {
	mu sync.Mutex
	to io.Writer // nil: closed
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.to == nil {
		return len(b), nil
	}
	return o.to.Write(b)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = nil
}
