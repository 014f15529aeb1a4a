package warc

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// childMain, if not nil, runs before the tests. It does not return in a child process.
var childMain func()

func TestMain(m *testing.M) {
	flag.Parse()
	if childMain != nil {
		childMain()
	}
	goleak.VerifyTestMain(m)
}

var silent = slog.New(slog.DiscardHandler)

var testInfo = []Field{{"software", "peerd/test"}, {"robots", "obey"},
	{"http-header-user-agent", "peerd (+https://example.org/bot)"},
	{"operator", "Test <test@example.org>"}}

func open(t testing.TB, dir string, o Options) *Archive {
	t.Helper()
	if o.Logger == nil {
		o.Logger = silent
	}
	if o.Info == nil {
		o.Info = testInfo
	}
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	a, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func closeNow(t testing.TB, a *Archive) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendOne(t testing.TB, a *Archive, x Exchange) Location {
	t.Helper()
	loc, err := a.Append(x)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func wantErr(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error is %v, want %v", got, want)
	}
}

// page returns exchange i, a response with a body of size bytes.
func page(i, size int) Exchange {
	body := text(uint64(i), size)
	return Exchange{
		URL:  fmt.Sprintf("https://www.example.com/Page/%d?b=2&a=%d", i, i),
		Addr: netip.MustParseAddr("192.0.2.7"),
		Time: time.Date(2026, 1, 2, 3, 4, 5+i, 678901000, time.UTC),
		Request: fmt.Appendf(nil, "GET /Page/%d?b=2&a=%d HTTP/1.1\r\nHost: www.example.com\r\n"+
			"User-Agent: peerd\r\nAccept-Encoding: gzip\r\n\r\n", i, i),
		Response: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nDate: Fri, 02 Jan 2026 03:04:05 GMT\r\n"+
			"Content-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\nServer: x\r\n\r\n",
			len(body)),
		Body: body, Protocols: []string{"http/1.1", "tls/1.3"},
		CipherSuite: "TLS_AES_128_GCM_SHA256",
		Metadata: []Field{{"fetchTimeMs", "123"}, {"via", "https://www.example.com/"},
			{"hopsFromSeed", "L"}, {"outcome", "ok"}},
	}
}

// revisit returns a revisit of page i.
func revisit(i int, profile, digest string) Exchange {
	x := page(i, 0)
	x.Time = x.Time.Add(24 * time.Hour)
	x.Revisit = &Revisit{Profile: profile, URL: x.URL, Time: x.Time.Add(-24 * time.Hour),
		Digest: digest}
	if profile == NotModified {
		x.Response = []byte("HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n")
	}
	return x
}

// text returns random words and tags, which can be compressed about as well as HTML.
func text(seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	words := make([]string, 2000)
	for i := range words {
		b := make([]byte, 2+r.IntN(8))
		for j := range b {
			b[j] = "etaoinshrdlucmfwypvbgkjqxz"[min(r.IntN(26), r.IntN(26))]
		}
		words[i] = string(b)
	}
	var b bytes.Buffer
	for b.Len() < size {
		switch r.IntN(12) {
		case 0:
			fmt.Fprintf(&b, "</p>\n<p class=\"c%d\">", r.IntN(9))
		case 1:
			fmt.Fprintf(&b, "<a href=\"/%s/%s-%d.html\">", words[min(r.IntN(2000), r.IntN(2000))],
				words[r.IntN(2000)], r.IntN(1e6))
		}
		b.WriteString(words[min(r.IntN(2000), r.IntN(2000), r.IntN(2000))])
		b.WriteByte(' ')
	}
	return b.Bytes()[:size]
}

// copyAll returns what Extract writes.
func copyAll(t testing.TB, r *Reader) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Extract(t.Context(), &b, nil, map[string]int64{}, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readFile(t testing.TB, path ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	ds, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		if d.Name() != "lock" {
			all = append(all, d.Name())
		}
	}
	return all
}
