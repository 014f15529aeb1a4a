package dashboard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"peerd/node/dashboard"
)

func get(t *testing.T, name string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, dashboard.Prefix+name, nil)
	if len(header) == 2 {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	dashboard.Handler().ServeHTTP(w, r)
	return w.Result()
}

// Every file that the page names exists, and nothing is inline or from another server.
func TestFiles(t *testing.T) {
	page := get(t, "")
	text, err := io.ReadAll(page.Body)
	if err != nil || page.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", page.StatusCode, err)
	}
	policy := page.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
	unsafe := regexp.MustCompile(`(?i)<style|\son\w+=|style=|javascript:|<script>|https?://`)
	if m := unsafe.Find(text); m != nil {
		t.Errorf("the page contains %q", m)
	}
	names := regexp.MustCompile(`(?:href|src)="([^"#]+)"`).FindAllSubmatch(text, -1)
	if len(names) < 5 {
		t.Errorf("the page names %d files", len(names))
	}
	for _, m := range names {
		resp := get(t, string(m[1]))
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") == "" ||
			resp.Header.Get("Content-Security-Policy") != policy {
			t.Errorf("%s: status %d, %v", m[1], resp.StatusCode, resp.Header)
		}
		if again := get(t, string(m[1]), "If-None-Match",
			resp.Header.Get("ETag")); again.StatusCode !=
			http.StatusNotModified {
			t.Errorf("%s again: status %d, want 304", m[1], again.StatusCode)
		}
	}
	for _, name := range []string{"nothing.js", "../dashboard.go", "static", "."} {
		if resp := get(t, name); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", name, resp.StatusCode)
		}
	}
}
