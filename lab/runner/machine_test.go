package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reached returns the ways to reach a machine: each takes its arguments apart in another way.
func reached(t *testing.T) map[string]Command {
	t.Helper()
	ssh := filepath.Join(t.TempDir(), "ssh")
	// As ssh: the arguments are joined, and a login prints a message.
	write(t, ssh, "#!/bin/sh\nshift\necho 'Welcome!'\necho\nexec sh -c \"$*\"\n")
	all := map[string]Command{
		"shell": {"sh", "-c"}, "like ssh": {ssh, "user@host"}, "exec": {"env", "A=b"},
	}
	if c := realSSH(t); c != nil {
		all["ssh"] = c
	}
	return all
}

// TestCommand runs a script with input by all ways to reach a machine.
func TestCommand(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("exit 3; 'quotes' $(date)\n\x00\xff", 20_000)
	for name, c := range reached(t) {
		var out bytes.Buffer
		if err := c.Run(t.Context(), "cat", strings.NewReader(big), &out); err != nil ||
			out.String() != big {
			t.Errorf("%s: %v, got %d bytes, want %d", name, err, out.Len(), len(big))
		}
		out.Reset()
		err := c.Run(t.Context(), "read a\necho \"$a\"; echo wrong >&2; (exit 7)", nil, &out)
		if err == nil || !strings.Contains(err.Error(), "7: wrong") || out.String() != "\n" {
			t.Errorf("%s: %v, %q, want status 7 with the message, and no input", name, err, &out)
		}
		// A script that does not read its input must not block the sender.
		if err := c.Run(t.Context(), "exit 0", endless{}, nil); err != nil {
			t.Errorf("%s: a script without interest in its input: %v", name, err)
		}
	}
}

// endless is an input without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestCommandHangs ends commands that do not answer, with what they have started.
func TestCommandHangs(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "alive")
	for name, c := range map[string]Command{
		"before the script": {"sh", "-c", "sleep 1000"},
		"without a shell":   {"sleep", "1000"},
		"with a child":      {"sh", "-c", "sleep 1000 | cat"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if name == "without a shell" {
			c = Command{"sh", "-c", "exec sleep 1000"}
		}
		err := c.Run(ctx, "echo >"+quote(file), nil, io.Discard)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %v", name, err, context.DeadlineExceeded)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a script ran that was not read")
	}
}

// TestProbe measures a machine; the limits name what is wrong.
func TestProbe(t *testing.T) {
	t.Parallel()
	for name, c := range reached(t) {
		p, _, err := probe(t.Context(), c, "")
		if err != nil || p.Processors < 1 || p.RTT <= 0 || p.Bandwidth <= 0 ||
			p.Clock < -30 || p.Clock > 30 {
			t.Errorf("%s: probe() = %+v, %v", name, p, err)
		}
	}
	for _, c := range []Command{{"false"}, {"sh", "-c", "cat; echo"}, {"no-such-program"}} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if p, _, err := probe(ctx, c, ""); err == nil {
			t.Errorf("%v: got %+v, want an error", c, p)
		}
		cancel()
	}
	p := Probe{Load: 2, Clock: -3, RTT: 300, Bandwidth: 1000}
	l := Limits{Load: 1, Bandwidth: 2000}
	l.Clock.Duration, l.RTT.Duration = time.Second, 200*time.Millisecond
	err := l.fault(p)
	for _, want := range []string{"load is 2 ", "clock offset is 2.5 s", "RTT is 300 ms",
		"bandwidth is 1e+03 bytes/s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fault() = %v, want %q", err, want)
		}
	}
	if err := (Limits{}).fault(p); err != nil {
		t.Errorf("without limits: %v", err)
	}
}
