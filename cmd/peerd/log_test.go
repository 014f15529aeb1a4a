package main

import (
	"bufio"
	"bytes"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What libraries log by themselves is theirs, may be long, and may come from
// anybody.
func TestLibrariesAreHushed(t *testing.T) {
	old := slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(old)
		stdlog.SetOutput(io.Discard)
	})
	for level, heard := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var stderr bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&stderr)
		if _, err := newLogger(cmd, level); err != nil {
			t.Fatal(err)
		}
		stdlog.Printf("foreign %q\n\x1b[31m", strings.Repeat("x", 10_000))
		line := stderr.String()
		if strings.Contains(line, "foreign") != heard || len(line) > 400 || strings.Contains(line, "\x1b") {
			t.Errorf("%v: %q", level, line)
		}
	}
}

// babble serves one page over one connection, and says more than it was asked.
func babble(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.106.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(c)
			for {
				if _, err := http.ReadRequest(in); err != nil {
					break
				}
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nhi!HTTP/1.1 200 foreign bytes\r\n\r\n")
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

func TestServersThatBabbleAreNotHeard(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := tryPeerd(t, "crawl", "http://"+babble(t)+"/", "--home", filepath.Join(t.TempDir(), "h"),
		"--allow-net", "127.106.0.0/16", "--min-delay", "10ms", "--log-level", "info")
	if code != 0 || !strings.Contains(stdout, "pages") || strings.Contains(stderr, "Unsolicited") || strings.Contains(stderr, "foreign") {
		t.Errorf("status %d, %s\n%s", code, stdout, stderr)
	}
}
