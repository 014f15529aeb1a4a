package dashboard_test

import (
	"crypto/sha256"
	"encoding/base64"
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

// The page contains all it needs: its scripts and its style sheet are those that the policy names
// by their digests, and nothing else is inline or from elsewhere.
func TestPage(t *testing.T) {
	resp := get(t, "")
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	policy := resp.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "script-src 'self'") {
		t.Errorf("Content-Security-Policy: %s", policy)
	}
	inline := regexp.MustCompile(`(?s)<(script|style)[^>]*>(.*?)</(?:script|style)>`)
	parts := inline.FindAllSubmatch(text, -1)
	if len(parts) != 3 {
		t.Errorf("%d scripts and style sheets, want 3", len(parts))
	}
	for _, m := range parts {
		sum := sha256.Sum256(m[2])
		want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks the digest of a %s: %.60s", m[1], m[2])
		}
		if m := regexp.MustCompile(`(?m)^(import|export) `).Find(m[2]); m != nil {
			t.Errorf("the joined module has %q", m)
		}
	}
	rest := inline.ReplaceAll(text, nil)
	unsafe := regexp.MustCompile(
		`(?i)\son\w+=|style=|javascript:|<script|<style|https?://|src="[^d]`)
	if m := unsafe.Find(rest); m != nil {
		t.Errorf("the page contains %q", m)
	}
	if again := get(t, "", "If-None-Match", resp.Header.Get("ETag")); again.StatusCode !=
		http.StatusNotModified {
		t.Errorf("again: status %d, want 304", again.StatusCode)
	}
	for _, name := range []string{"app.js", "nothing.js", "../dashboard.go", "static", "."} {
		if resp := get(t, name); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", name, resp.StatusCode)
		}
	}
}
