package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
)

// Messages of libraries, which may be long and contain foreign bytes, appear only with
// --library-log-level, shortened, and at no --log-level.
func TestLibraryLogs(t *testing.T) {
	old := slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(old)
		stdlog.SetOutput(io.Discard)
	})
	for level, logged := range map[string]bool{"": false, "info": true, "error": false} {
		var stderr bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&stderr)
		cmd.Flags().String("library-log-level", level, "")
		if _, err := cli.NewLogger(cmd, slog.LevelDebug); err != nil {
			t.Fatal(err)
		}
		stdlog.Printf("foreign %q\n\x1b[31m", strings.Repeat("x", 10_000))
		line := stderr.String()
		if strings.Contains(line, "foreign") != logged || len(line) > 400 ||
			strings.Contains(line, "\x1b") {
			t.Errorf("--library-log-level %q: log = %q, want the message: %v", level, line, logged)
		}
	}
}

// Messages are written as JSON, and to a file that is renamed when it is full.
func TestLogFile(t *testing.T) {
	old := slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(old)
		stdlog.SetOutput(io.Discard)
	})
	dir := t.TempDir()
	var stderr bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetErr(&stderr)
	to := cli.Log{JSON: true, File: filepath.Join(dir, "log"), MaxSize: 1, Backups: 2}
	log, err := to.New(cmd)
	if err != nil {
		t.Fatal(err)
	}
	for range 3000 {
		log.Info("filled", "text", strings.Repeat("x", 1000))
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) < 3 || stderr.Len() > 0 {
		t.Errorf("%d files, %v, stderr %q", len(files), err, stderr.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var got struct{ Msg string }
	if err := json.Unmarshal(line, &got); err != nil || got.Msg != "filled" {
		t.Errorf("%.100s: %v", line, err)
	}
	to.File = filepath.Join(dir, "log", "below a file")
	if _, err := to.New(cmd); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

// systemd is told that the peer is ready and that it stops.
func TestNotifySystemd(t *testing.T) {
	dir, err := os.MkdirTemp("", "peerd") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", at.Name)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer notifySystemd(ctx, slog.New(slog.DiscardHandler))()
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		got := make([]byte, 64)
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := socket.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("systemd got %q, %v, want %q", got[:n], err, want)
		}
		cancel()
	}
}

// The shell is told the values of options.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"run --strategy ":            "proxy",
		"network new --admission ":   "invite",
		"status --log-format ":       "json",
		"config show crawl.pages":    "crawl.pages_per_day",
		"completion ":                "bash",
		"network new x --scope dom":  "domains",
		"crawl --library-log-level ": "debug",
	} {
		var out, stderr bytes.Buffer
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if code := run(t.Context(), args, nil, &out, &stderr); code != 0 ||
			!strings.Contains(out.String(), want) {
			t.Errorf("completions of %q: %q, want %q", line, out.String(), want)
		}
	}
}
