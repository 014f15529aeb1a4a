package fetch

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"peerd/store"
)

// If there are too many idle connections, those to hosts that were left are closed first, the last
// one before the others, and then the one that was used least recently.
func TestLeave(t *testing.T) {
	s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
		for s.readRequest(r) {
			io.WriteString(c, okAnswer)
		}
	})
	f := newFetcher(t, func(c *Config) { c.MaxIdle = 3 })
	defer f.Close()
	get := func(host string) (reused bool) {
		t.Helper()
		u := store.URL(fmt.Sprintf("http://%s.example:%d/", host, s.at.Port()))
		res := f.Do(t.Context(), Request{URL: u, Addr: s.at.Addr()})
		if res.Err != nil {
			t.Fatal(res.Err)
		}
		return res.Timing.Reused
	}
	for _, host := range []string{"a", "b", "c"} {
		get(host)
	}
	f.Leave("b.example")
	f.Leave("c.example")
	f.Leave("unknown.example")
	get("d")       // instead of c
	if !get("b") { // and is wanted again
		t.Error("closed the connection to a host that was left first")
	}
	if get("c") || !get("b") || get("a") { // c instead of a, which was used least recently
		t.Error("closed another connection than the one that was used least recently")
	}
	if n := idle(f); n != 3 {
		t.Errorf("%d idle connections, want 3", n)
	}
}
