package main

import (
	"fmt"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// Peers that are killed and come back at other ports, the bootstrap peer among
// them, meet the rest again through those they knew, although none of the
// addresses on the command lines is right any more.
func TestPeersThatMoveAreMetAgain(t *testing.T) {
	t.Parallel()
	const anywhere = "/ip4/127.0.0.1/tcp/0"
	w, flags := serveWeb(t, web.Config{Sites: 3, Pages: 30, Seed: 13, MinDelay: time.Millisecond}, 106)
	ds := network(t, w, flags, anywhere, anywhere, anywhere)
	last := ds[2] // to have come
	for _, i := range []int{0, 1} {
		before := ds[i].status()
		// Who one has met is written down within a second.
		eventually(t, 10*time.Second, "the others are remembered", func() (bool, any) {
			s, err := last.ask()
			return err == nil && s.UptimeS > 2.5, err
		})
		begin := time.Now()
		ds[i].kill()
		ds[i].run()
		if now := ds[i].status(); now.PeerID != before.PeerID || now.Addrs[0] == before.Addrs[0] {
			t.Errorf("peer %d was %v and is %v", i, before.Addrs, now.Addrs)
		}
		eventually(t, 20*time.Second, "everybody is connected to everybody", func() (bool, any) {
			state := ""
			ok := true
			for k, d := range ds {
				s, err := d.ask()
				ok = ok && err == nil && s.PeersConnected == 2 && s.Directory == 2
				state += fmt.Sprintf(" peer %d: %d connected, %d known;", k, s.PeersConnected, s.Directory)
			}
			return ok, state
		})
		last = ds[i]
		t.Logf("peer %d is back in the network after %v", i, time.Since(begin).Round(time.Millisecond))
	}
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	awaitQuiet(t, 60*time.Second, ds)
	if a := w.Audit(); a.PagesFetched != 30 || a.Fetches != 30 {
		t.Errorf("%d of %d pages in %d fetches", a.PagesFetched, a.PagesExpected, a.Fetches)
	}
}
