package registry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rir "peerd/coords/registry"
)

// delegated returns a file of n /24s of a registry, starting at 10.block.
func delegated(registry string, block, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "2|%s|1|%d||20260928|+0000\n", registry, n)
	for i := range n {
		fmt.Fprintf(&b, "%s|NL|ipv4|10.%d.%d.0|256|20100101|allocated|h%d\n", registry, block, i,
			i%3)
	}
	return b.String()
}

func zipped(s string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.Bytes()
}

// holder returns who holds an address by the files in dir.
func holder(t *testing.T, dir, addr string) string {
	t.Helper()
	table, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	e, _ := table.Lookup(netip.MustParseAddr(addr))
	return e.Holder
}

// Files come from the disk and the web, plain and packed, and each replaces that of its registry.
func TestLoad(t *testing.T) {
	dir, agent := filepath.Join(t.TempDir(), "registry"), ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		if r.URL.Path != "/ripencc.gz" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(zipped(delegated("ripencc", 1, 100)))
	}))
	defer server.Close()
	if _, _, err := Open(dir); !errors.Is(err, ErrNone) {
		t.Errorf("Open() without files: %v, want ErrNone", err)
	}
	f, err := Load(t.Context(), dir, "peerd/test", server.URL+"/ripencc.gz")
	if err != nil || f.IPv4 != 100 || agent != "peerd/test" {
		t.Fatalf("Load() of a URL = %+v, %v; User-Agent %q", f, err, agent)
	}
	file := filepath.Join(t.TempDir(), "apnic")
	if err := os.WriteFile(file, []byte(delegated("apnic", 2, 3)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), dir, "", file); err != nil {
		t.Fatal(err)
	}
	_, infos, err := Open(dir)
	if err != nil || len(infos) != 2 || infos[0].Registry != "apnic" || infos[0].Entries != 3 ||
		infos[1].Day != "20260928" || infos[1].Loaded.IsZero() {
		t.Errorf("Open() = %+v, %v", infos, err)
	}
	if h := holder(t, dir, "10.1.98.7"); h != "ripencc:h2" {
		t.Errorf("the holder is %q", h)
	}
	if _, err := Store(dir, []byte(delegated("ripencc", 3, 9))); err != nil {
		t.Fatal(err)
	}
	if h := holder(t, dir, "10.1.98.7"); h != "" {
		t.Errorf("the holder by the file before is still %q", h)
	}
}

// A file that cannot be used leaves the one before as it is.
func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	if _, err := Store(dir, []byte(delegated("ripencc", 1, 100))); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	cut, _, _ := strings.Cut(delegated("ripencc", 1, 100), "|10.1.5.0")
	packed := zipped(delegated("ripencc", 2, 100))
	for name, data := range map[string][]byte{"cut": []byte(cut), "html": []byte("<html>"),
		"cut.gz": packed[:len(packed)-40], "no.gz": []byte("\x1f\x8b?")} {
		if _, err := Store(dir, data); err == nil {
			t.Errorf("%s: Store() has no error", name)
		}
	}
	if _, err := Store(dir, []byte(cut)); !errors.Is(err, rir.ErrTruncated) {
		t.Errorf("Store() of a truncated file: %v, want ErrTruncated", err)
	}
	for source, want := range map[string]string{server.URL + "/x": "404 Not Found",
		"ftp://ftp.ripe.net/x": "want a file", filepath.Join(dir, "none"): "no such file"} {
		if _, err := Load(t.Context(), dir, "", source); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Load(%s): %v, want %q", source, err, want)
		}
	}
	if h := holder(t, dir, "10.1.98.7"); h != "ripencc:h2" {
		t.Errorf("the holder is %q", h)
	}
}

// The other files are read if one is damaged, and the error names that.
func TestOpenDamaged(t *testing.T) {
	dir := t.TempDir()
	if _, err := Store(dir, []byte(delegated("ripencc", 1, 100))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "arin"+suffix), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	table, infos, err := Open(dir)
	if err == nil || !strings.Contains(err.Error(), "arin"+suffix) || len(infos) != 1 ||
		table.Len() < 100 {
		t.Errorf("Open() = %+v, %v, want one file and an error", infos, err)
	}
}
