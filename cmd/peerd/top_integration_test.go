//go:build integration

package main

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
)

// screen is what a program has written to a terminal since the last key.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

// plain returns the text without control sequences, and forgets it if asked to.
func (s *screen) plain(forget bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ansi.Strip(s.text.String())
	if forget {
		s.text.Reset()
	}
	return text
}

// TestTop watches a peer on a pseudo terminal of the smallest size, enlarges it, and quits.
func TestTop(t *testing.T) {
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0")
	if _, stderr, code := tryPeerd(t, "top", "--home", d.home); code != 1 ||
		stderr != "peerd: top needs a terminal; peerd status prints the state once\n" {
		t.Errorf("without a terminal: status %d, %q", code, stderr)
	}
	d.run()
	cmd := exec.Command("peerd", "top", "--home", d.home)
	cmd.Env = append(environment(), "TERM=xterm-256color", "NO_COLOR=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 15, Cols: 60})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	shown := &screen{}
	var raw bytes.Buffer // all of it; read after copied
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		b := make([]byte, 4096)
		for {
			n, err := tty.Read(b)
			raw.Write(b[:n])
			shown.Write(b[:n])
			if err != nil { // the program has ended
				return
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it may have ended
	expect := func(parts ...string) {
		t.Helper()
		eventually(t, time.Minute, "the terminal shows "+strings.Join(parts, ", "),
			func() (bool, any) {
				text := shown.plain(false)
				for _, p := range parts {
					if !strings.Contains(text, p) {
						return false, text
					}
				}
				return true, ""
			})
		shown.plain(true)
	}
	press := func(key string) {
		t.Helper()
		if _, err := tty.WriteString(key); err != nil {
			t.Fatal(err)
		}
	}
	expect("pages/s", "Overview", "q quit", "connected")
	press("4")
	expect("HOST", "sort: URLs")
	press("5")
	expect("peer started")
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		t.Fatal(err)
	}
	press("2")
	expect("DISTANCE", "There is nothing here.")
	press("q")
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("top ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("top did not end")
	}
	tty.Close()
	<-copied
	for _, color := range []string{"\x1b[31m", "\x1b[32m", "\x1b[33m"} {
		if bytes.Contains(raw.Bytes(), []byte(color)) {
			t.Errorf("the terminal got %q with NO_COLOR", color)
		}
	}
	if err := d.cmd.Process.Signal(syscall.Signal(0)); errors.Is(err, syscall.ESRCH) {
		t.Error("the peer has ended")
	}
}
