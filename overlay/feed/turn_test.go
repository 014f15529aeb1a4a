package feed

import (
	"fmt"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store/warc"
)

// While an archive is read for a collector that wants a part of it, and then for as long again, it
// is not read for another one of that kind, whatever that asks for. Those that want everything wait
// for each other only.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if _, err := a.Append(warc.Exchange{URL: "http://a.example/", Time: time.Now(),
			Response: []byte("HTTP/1.1 200 OK\r\n\r\n"), Body: []byte("page")}); err != nil {
			t.Fatal(err)
		}
		s := &Server{Archive: a, Logger: slog.New(slog.DiscardHandler)}
		s.start()
		for _, tt := range []struct {
			turn  *turn
			host  string
			items int
			waits bool
		}{{&s.turn, "", 1, false}, {&s.turn, "a.example", 1, true},
			{&s.turn, "none.example", 0, true}, {&s.all, "", 1, true},
			{&s.all, "a.example", 1, false}} {
			var hosts []string
			if tt.host != "" {
				hosts = []string{tt.host}
			}
			f, err := newFilter(hosts, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !tt.turn.take() || tt.turn.take() {
				t.Fatal("not exactly one has its turn")
			}
			begin := time.Now()
			go func() {
				time.Sleep(3 * time.Second)
				tt.turn.end()
			}()
			p, _, _, err := s.next(t.Context(), nil, map[string]int64{}, f, false)
			if took := time.Since(begin); err != nil || len(p.Items) != tt.items ||
				len(p.At) != 1 || tt.waits != (took >= 6*time.Second) || took > 7*time.Second {
				t.Errorf("host %q: %d exchanges of %d files after %v, error %v", tt.host,
					len(p.Items), len(p.At), took, err)
			}
			time.Sleep(10 * time.Second) // the rest of the first case
		}
	})
}

// A machine that pretends to be many collectors leaves room for others. Those of a local network
// may have all of it.
func TestCollectorsOfOneNetwork(t *testing.T) {
	near := netip.MustParsePrefix("11.0.0.0/24")
	for of, want := range map[netip.Prefix]int{near: maxNear, {}: MaxCollectors} {
		s := &Server{Upload: 1}
		s.start()
		n := 0
		for i := range 2 * MaxCollectors {
			if _, leave := s.enter(t.Context(), peer.ID(fmt.Sprint(i)), of); leave != nil {
				defer leave()
				n++
			}
		}
		_, again := s.enter(t.Context(), "0", of) // the old conversation ends
		_, other := s.enter(t.Context(), "other", netip.MustParsePrefix("11.0.1.0/24"))
		if n != want || again == nil || (other != nil) != (want < MaxCollectors) {
			t.Errorf("%d collectors in %v, want %d; again %v, another one %v", n, of, want,
				again != nil, other != nil)
		}
	}
}
