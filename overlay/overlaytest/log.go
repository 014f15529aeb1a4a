package overlaytest

import (
	"io"
	"log/slog"
	"sync"
	"testing"
)

// Log returns a Logger that writes all levels to the test's output if tests run with -v, and
// discards them otherwise. Lines written after the test has ended are dropped.
func Log(t testing.TB) *slog.Logger {
	if !testing.Verbose() {
		return slog.New(slog.DiscardHandler)
	}
	o := &output{to: t.Output()}
	t.Cleanup(o.close)
	return slog.New(slog.NewTextHandler(o, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// output is the output of a test until it is closed.
type output struct {
	mu sync.Mutex
	to io.Writer // nil if closed
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
