//go:build integration

package main

import (
	"fmt"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// Peers that are killed and restarted at other ports, among them the bootstrap peer, find each
// other by the saved peers, although no address on the command lines is valid any more.
func TestMovedPeers(t *testing.T) {
	t.Parallel()
	const anywhere = "/ip4/127.0.0.1/tcp/0"
	w, flags := serveWeb(t, web.Config{Sites: 3, Pages: 30, Seed: 13, MinDelay: time.Millisecond},
		106)
	ds := network(t, w, flags, anywhere, anywhere, anywhere)
	last := ds[2] // the latest peer
	for _, i := range []int{0, 1} {
		before := ds[i].status()
		// A peer saves the peers that it has met within a second.
		eventually(t, 10*time.Second, "the peers are saved", func() (bool, any) {
			s, err := last.ask()
			return err == nil && s.UptimeS > 2.5, err
		})
		begin := time.Now()
		ds[i].kill()
		ds[i].run()
		if now := ds[i].status(); now.PeerID != before.PeerID || now.Addrs[0] == before.Addrs[0] {
			t.Errorf("addresses of peer %d = %v before and %v after the restart, want others",
				i, before.Addrs, now.Addrs)
		}
		eventually(t, 20*time.Second, "all peers are connected to each other", func() (bool, any) {
			state := ""
			ok := true
			for k, d := range ds {
				s, err := d.ask()
				ok = ok && err == nil && s.PeersConnected == 2 && s.Directory == 2
				state += fmt.Sprintf(" peer %d: %d connected, %d known;", k, s.PeersConnected,
					s.Directory)
			}
			return ok, state
		})
		last = ds[i]
		t.Logf("peer %d is back in the network after %v", i,
			time.Since(begin).Round(time.Millisecond))
	}
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	awaitIdle(t, 60*time.Second, ds)
	if a := w.Audit(); a.PagesFetched != 30 || a.Fetches != 30 {
		t.Errorf("fetched %d of %d pages in %d fetches, want each once",
			a.PagesFetched, a.PagesExpected, a.Fetches)
	}
}
