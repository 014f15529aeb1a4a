package fetch

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"peerd/crawl/deny"
)

// TestTransport verifies that a Transport sends requests to its address, whatever the name, and
// none that the guard or the deny list refuses, also if the list changes later.
func TestTransport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deny")
	list, err := deny.Open(file, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, func(c *Config) { c.Deny = list })
	s := newSite(t, "127.6.0.1", "http", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append([]byte(r.Method+" "+r.Host+" "), body...))
	})
	get := func(addr netip.Addr, path string) (string, error) {
		tr := f.Transport(addr, time.Second)
		defer tr.Close()
		c := http.Client{Transport: tr}
		res, err := c.Get(string(s.url("http", "a.test", path)))
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	want := "GET " + s.url("http", "a.test", "/").Origin()[len("http://"):] + " "
	if got, err := get(s.addr, "/"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := get(s.addr, "/slow"); err == nil {
		t.Error("waited for a head for longer than allowed")
	}
	hits := s.hits.Load()
	if _, err := get(netip.MustParseAddr("10.0.0.1"), "/"); !errors.Is(err, ErrForbiddenAddr) {
		t.Errorf("a private address: %v, want %v", err, ErrForbiddenAddr)
	}
	if f.Denied(s.url("http", "a.test", "/"), s.addr) != nil {
		t.Error("the site is denied")
	}
	rule, err := deny.Parse("a.test")
	if err == nil {
		_, err = deny.Add(file, rule)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := get(s.addr, "/"); !errors.Is(err, deny.ErrDenied) {
		t.Errorf("a denied host: %v, want %v", err, deny.ErrDenied)
	}
	if err := f.Denied(s.url("http", "a.test", "/"), s.addr); !errors.Is(err, deny.ErrDenied) {
		t.Errorf("Denied() = %v, want %v", err, deny.ErrDenied)
	}
	if n := s.hits.Load(); n != hits {
		t.Errorf("%d requests were sent that are refused", n-hits)
	}
}
