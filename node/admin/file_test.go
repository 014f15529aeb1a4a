package admin

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// freePort returns an address on which no program listens.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// listenRaw serves connections with handle until the end of the test.
func listenRaw(t *testing.T, handle func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
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
			handle(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// An api.json that a killed peer left behind must not mislead: the error says that no peer
// runs and names the file, whatever program has the port now.
func TestNotRunning(t *testing.T) {
	dir := t.TempDir()
	if _, err := Dial(filepath.Join(dir, "missing")); !errors.Is(err, ErrNotRunning) {
		t.Errorf("Dial() without a file: %v, want ErrNotRunning", err)
	}

	web := http.Server{Handler: http.NotFoundHandler()}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go web.Serve(ln)
	defer web.Close()
	mail := listenRaw(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1000))
		fmt.Fprint(c, "500 unknown command\r\n")
	})
	other, _ := serve(t, newFake())
	api, err := readAPIFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, addr := range map[string]string{
		"no program": freePort(t), "a web server": ln.Addr().String(),
		"a mail server": mail, "another peer": api.Addr,
	} {
		stale := filepath.Join(dir, "api.json")
		if err := writeAPIFile(stale, apiFile{Addr: addr, Token: newToken()}); err != nil {
			t.Fatal(err)
		}
		c := dialed(t, stale)
		_, err := c.Status(t.Context())
		if !errors.Is(err, ErrNotRunning) || !strings.Contains(err.Error(), stale) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s has the port: %v, want one line with ErrNotRunning and %s",
				name, err, stale)
		}
		if err := c.Wait(t.Context()); err != nil {
			t.Errorf("%s has the port: Wait() = %v", name, err)
		}
	}
}

// A server replaces the file of a killed peer before it answers requests.
func TestListenRemovesStaleFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "api.json")
	if err := writeAPIFile(file, apiFile{Addr: freePort(t), Token: newToken()}); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Addr: "127.0.0.1:0", File: file, Node: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := Dial(file); !errors.Is(err, ErrNotRunning) || strings.Contains(err.Error(), file) {
		t.Errorf("Dial() after Listen() = %v, want just ErrNotRunning", err)
	}
}

func TestListenRefuses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if _, err := Listen(Config{Addr: ln.Addr().String(), File: "x", Node: newFake()}); err == nil ||
		!strings.Contains(err.Error(), "address already in use") {
		t.Errorf("Listen() on a used port: %v", err)
	}
	if _, err := Listen(Config{Addr: "127.0.0.1:0"}); err == nil {
		t.Error("Listen() without Node returned no error")
	}
}

func TestRunWithoutFolder(t *testing.T) {
	s, err := Listen(Config{Addr: "127.0.0.1:0", File: filepath.Join(t.TempDir(), "missing",
		"api.json"), Node: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run() without the folder of its file returned no error")
	}
}

func TestAPIFileIsPrivate(t *testing.T) {
	file, _ := serve(t, newFake())
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
}

func FuzzParseAPIFile(f *testing.F) {
	f.Add([]byte(`{"addr":"127.0.0.1:1","token":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if api, err := parseAPIFile("f", data); err == nil && len(api.Token) != 64 {
			t.Errorf("parseAPIFile() = %+v", api)
		}
	})
}
