package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// monitored is a server with everything that can be switched on.
func monitored(t *testing.T) (file, tokenFile string, stop func()) {
	t.Helper()
	tokenFile = filepath.Join(t.TempDir(), "read.token")
	file, stop = serveConfig(t, Config{Node: newFake(), ReadTokenFile: tokenFile, Pprof: true,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "x 1")
		})})
	return file, tokenFile, stop
}

// readToken returns the token as Prometheus reads it: without blanks around it.
func readToken(t *testing.T, tokenFile string) string {
	t.Helper()
	text, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// The token for reading permits every GET that changes nothing, and nothing else.
func TestReadToken(t *testing.T) {
	file, tokenFile, _ := monitored(t)
	token := readToken(t, tokenFile)
	api, err := readAPIFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !tokenPattern.MatchString(token) || token == api.Token {
		t.Fatalf("the token for reading is %q, the other %q", token, api.Token)
	}
	const ok, no = http.StatusOK, http.StatusForbidden
	for _, tt := range []struct {
		method, path string
		full, read   int
	}{
		{"GET", pathStatus, ok, ok}, {"GET", pathPeers, ok, ok}, {"GET", pathSubnets, ok, ok},
		{"GET", pathQueue, ok, ok}, {"GET", pathLinks, ok, ok}, {"GET", pathAlive, ok, ok},
		{"GET", pathGivenUp + "?host=a.example", ok, ok}, {"GET", pathMetrics, ok, ok},
		{"GET", pathSearch + "?q=word", ok, ok},
		{"HEAD", pathStatus, ok, ok},
		{"POST", pathStatus, http.StatusMethodNotAllowed, no},
		{"GET", "/v1/nothing", http.StatusNotFound, no},
		{"POST", pathSeed, http.StatusBadRequest, no},
		{"POST", pathRetry, http.StatusBadRequest, no},
		{"POST", pathRobots, http.StatusBadRequest, no},
		{"POST", pathLeave, http.StatusBadRequest, no},
		{"GET", "/debug/pprof/", ok, no}, {"GET", "/debug/pprof/heap?debug=1", ok, no},
		{"GET", "/debug/pprof/cmdline", ok, no}, {"GET", "/debug/pprof/symbol", ok, no},
		{"GET", "/debug/pprof/profile?seconds=1", -1, no},
		{"GET", "/debug/pprof/trace?seconds=1", -1, no},
		{"POST", pathStop, ok, no},
	} {
		for _, as := range []struct {
			token string
			want  int
		}{{api.Token, tt.full}, {token, tt.read}} {
			if as.want < 0 {
				continue
			}
			resp := request(t, file, tt.method, tt.path, "", func(r *http.Request) {
				r.Header.Set("Authorization", "Bearer "+as.token)
			})
			if resp.StatusCode != as.want {
				t.Errorf("%s %s with token %.4s: status %d, want %d", tt.method, tt.path, as.token,
					resp.StatusCode, as.want)
			}
		}
	}
	foreign := request(t, file, "GET", pathMetrics, "", func(r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		r.Host = "evil.example"
	})
	if foreign.StatusCode != no {
		t.Errorf("status %d with a foreign name and the token for reading", foreign.StatusCode)
	}
}

// Metrics and profiles are served only if they are configured.
func TestNothingToMonitor(t *testing.T) {
	file, _ := serve(t, newFake())
	for _, path := range []string{pathMetrics, "/debug/pprof/", "/debug/pprof/heap"} {
		if resp := request(t, file, "GET", path, "", nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: status %d, want 404", path, resp.StatusCode)
		}
	}
}

// The file with the token for reading is private, new at each start, and gone at the end.
func TestReadTokenFile(t *testing.T) {
	_, tokenFile, stop := monitored(t)
	info, err := os.Stat(tokenFile)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v, %v, want 0600", info.Mode(), err)
	}
	stop()
	if _, err := os.Stat(tokenFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file exists after the stop: %v", err)
	}
	if err := os.WriteFile(tokenFile, []byte("of a killed peer"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Listen(Config{Addr: "127.0.0.1:0", File: filepath.Join(t.TempDir(), "api.json"),
		ReadTokenFile: tokenFile, Node: newFake()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(tokenFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a killed peer exists after Listen: %v", err)
	}
}
