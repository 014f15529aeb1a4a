package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves cases for the length of the test.
func serve(t testing.TB, cases ...string) *Web {
	t.Helper()
	w, err := Serve(t.Context(), Options{Cases: cases})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// dial connects to the address of a host, which closes after ten seconds.
func dial(t testing.TB, w *Web, host string) net.Conn {
	t.Helper()
	addrs, err := w.Lookup(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := net.Dial("tcp", netip.AddrPortFrom(addrs[0], uint16(w.Port())).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(5 * time.Minute))
	return nc
}

// ask sends a request for host/path over a connection of its own.
func ask(t testing.TB, w *Web, url string, fields ...string) net.Conn {
	t.Helper()
	host, path, _ := strings.Cut(url, "/")
	nc := dial(t, w, host)
	fmt.Fprintf(nc, "GET /%s HTTP/1.1\r\nHost: %s:%d\r\nUser-Agent: test\r\n%s\r\n", path, host,
		w.Port(), strings.Join(fields, ""))
	return nc
}

// raw returns at most the first max bytes of the answer.
func raw(t testing.TB, w *Web, url string, max int64) string {
	t.Helper()
	nc := ask(t, w, url)
	defer nc.Close()
	b, err := io.ReadAll(io.LimitReader(nc, max))
	if err != nil && len(b) == 0 {
		t.Fatalf("%s: %v", url, err)
	}
	return string(b)
}

// get returns a valid HTTP answer and its body.
func get(t testing.TB, w *Web, url string) (*http.Response, string) {
	t.Helper()
	nc := ask(t, w, url, "Connection: close\r\n")
	defer nc.Close()
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return resp, string(body)
}

// ended waits until the n-th request of the log is over.
func ended(t testing.TB, w *Web, n int) Hit {
	t.Helper()
	late := time.After(5 * time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if hits := w.Log(); len(hits) > n && hits[n].Ended != EndOpen {
			return hits[n]
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("request %d is not over: %+v", n, w.Log())
		}
	}
}
