package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"testing"
	"time"
)

// openTest opens an archive for a test.
func openTest(t *testing.T, dir string, maxFile int64) *Archive {
	t.Helper()
	a, err := Open(dir, Options{MinFree: -1, MaxFile: maxFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func sample(i int) Exchange {
	x := Exchange{
		URL: fmt.Sprintf("http://a.example/%d", i), Addr: netip.MustParseAddr("192.0.2.1"),
		Time:      time.Date(2026, 3, 1, 0, 0, i, 5000, time.UTC),
		Request:   []byte("GET / HTTP/1.1\r\n\r\n"),
		Response:  []byte("HTTP/1.1 200 OK\r\nA: b\r\n\r\n"),
		Body:      bytes.Repeat([]byte{byte(i)}, i*7),
		Protocols: []string{"http/1.1", "tls/1.3"}, CipherSuite: "TLS_AES_128_GCM_SHA256",
		Metadata: []Field{{"fetchTimeMs", "1.5"}, {"empty", ""}},
	}
	switch i % 5 {
	case 1:
		x.Truncated = "length"
	case 2:
		x.Revisit = &Revisit{Profile: NotModified, URL: x.URL, Time: x.Time.Add(-time.Hour)}
		x.Body = nil
	case 3:
		x.From = "12D3KooWpeer"
	case 4:
		x.Metadata = nil
	}
	return x
}

// A reader that stops anywhere and continues from its position reads every exchange once, as it
// was written, also across files; those that were copied only if it asks for them.
func TestFollowExchanges(t *testing.T) {
	t.Parallel()
	a := openTest(t, t.TempDir(), 4<<10)
	var want []Exchange
	for i := range 100 {
		x := sample(i)
		if _, err := a.Append(x); err != nil {
			t.Fatal(err)
		}
		want = append(want, x)
	}
	stop := errors.New("stop")
	for _, every := range []int{1, 3, 1000} {
		at := map[string]int64{}
		var got []Exchange
		for done := false; !done; {
			n := 0
			from := maps.Clone(at)
			err := a.FollowExchanges(t.Context(), from, Selection{Copied: true},
				func(x Exchange) error {
					if len(x.Body) == 0 {
						x.Body = want[len(got)].Body
					}
					if x.At.File == "" || x.At.Length != 0 {
						t.Fatalf("%s is at %+v, want a file and no length", x.URL, x.At)
					}
					x.At = Location{}
					got = append(got, x)
					at = maps.Clone(from)
					if n++; n == every {
						return stop
					}
					return nil
				})
			if err != nil && !errors.Is(err, stop) {
				t.Fatal(err)
			}
			done = err == nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("stopping after %d: %d exchanges, want %d as they were written", every,
				len(got), len(want))
		}
	}
	n, large := 0, 0
	err := a.FollowExchanges(t.Context(), map[string]int64{}, Selection{MaxBytes: 500,
		Large: func(string, int64) { large++ }}, func(x Exchange) error {
		if n++; x.From != "" || len(x.Body) > 500 {
			t.Errorf("got %s, copied from %q, of %d bytes", x.URL, x.From, len(x.Body))
		}
		return nil
	})
	if err != nil || n+large != 80 || large == 0 {
		t.Errorf("%d exchanges and %d large ones, %v, want 80", n, large, err)
	}
	if end, err := a.Position(t.Context()); err != nil || len(end) < 2 {
		t.Errorf("Position() = %v, %v", end, err)
	}
}

// A reader that is cancelled in the middle of an exchange reads it again.
func TestFollowExchangesCancelled(t *testing.T) {
	t.Parallel()
	a := openTest(t, t.TempDir(), 2<<10)
	const all = 20
	for i := range all {
		if _, err := a.Append(sample(i)); err != nil {
			t.Fatal(err)
		}
	}
	at, got := map[string]int64{}, map[string]int{}
	for try := 4; ; try++ { // a whole exchange has three records
		ctx, cancel := context.WithCancel(t.Context())
		left := try%3 + 4
		err := a.FollowExchanges(ctx, at, Selection{Copied: true, Want: func(string) bool {
			if left--; left == 0 {
				cancel()
			}
			return true
		}}, func(x Exchange) error {
			got[x.URL]++
			return nil
		})
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || try > 100 {
			t.Fatal(err)
		}
	}
	for i := range all {
		if n := got[sample(i).URL]; n != 1 {
			t.Errorf("exchange %d is read %d times", i, n)
		}
	}
}
