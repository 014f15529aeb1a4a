//go:build integration

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// TestSandbox: a running peer opens no file outside its home, whatever a path within leads to, and
// with sandbox = false it does. The deny list is read before each request, so it stands for any
// file.
func TestSandbox(t *testing.T) {
	t.Parallel()
	if v, err := ll.LandlockGetABIVersion(); runtime.GOOS != "linux" || err != nil || v < 1 {
		t.Skip("the kernel does not support Landlock")
	}
	for _, on := range []bool{true, false} {
		d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--allow-net", "127.0.0.0/8")
		outside := t.TempDir()
		if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("a.example\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
		if !on {
			text, err := os.ReadFile(filepath.Join(d.home, "config.toml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(d.home, "config.toml"),
				append([]byte("sandbox = false\n"), text...), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.run()
		if err := os.Symlink(filepath.Join(outside, "secret"),
			filepath.Join(d.home, "deny")); err != nil {
			t.Fatal(err)
		}
		peerd(t, "trace", "--home", d.home, "http://a.example/") // reads the list
		eventually(t, time.Minute, "the peer has tried to read the file", func() (bool, any) {
			return strings.Contains(d.stderrText(), "deny list"), d.stderrText()
		})
		denied := strings.Contains(d.stderrText(), "permission denied")
		if denied != on {
			t.Errorf("sandbox %v: file outside the home was refused: %v\n%s", on, denied,
				d.stderrText())
		}
		if code := d.terminate(time.Minute); code != 0 {
			t.Errorf("status %d\n%s", code, d.stderrText())
		}
	}
}
