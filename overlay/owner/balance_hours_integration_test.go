//go:build integration

package owner

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// For some days the subnets of a peer follow its hours: elsewhere while it is closed,
// back when it opens, those without work too; none moves more than twice a day.
func TestSubnetsFollowWorkingHours(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each, days = 2, 2
		place := map[netip.Prefix]int{}
		x := func(p netip.Prefix) float64 { return float64(100 * place[p]) }
		strategy := func(c *Config) { c.Strategy = &script{next: nearestOpen(x)} }
		w := newSimNet(t, strategy, shift{someone: alice, from: 22, to: 6},
			shift{someone: bob, from: 8, to: 20, x: 100}, shift{someone: carol, x: 200})
		w.announce()
		for i := range 3 * each {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)
			place[p] = i / each
		}
		stop := w.run()
		begin := func(home int) { // while its nearest peer is open
			for p, i := range place {
				if i == home {
					w.begin(carol, p)
					w.peers[carol.id.String()].placement.Where(p)
				}
			}
		}
		begin(0)
		begin(2)
		w.pass(12 * time.Hour)
		begin(1)
		w.pass(12 * time.Hour)
		w.mu.Lock()
		clear(w.moves)
		w.mu.Unlock()

		for day := range days {
			for hour := range 24 {
				w.check(place, hour)
				if hour == 1 { // what is idle at noon must come back, too, at 22
					for p := range place {
						w.load(p, 50)
					}
				}
				if hour == 12 {
					for p := range place {
						if place[p] == 0 && p.Addr().As4()[2]%2 == 0 {
							w.load(p, 0)
						}
					}
				}
				w.pass(time.Hour)
			}
			w.mu.Lock()
			for p, at := range w.moves {
				if len(at) > 2*(day+1) {
					t.Errorf("%v moved %d times in %d days: %v", p, len(at), day+1, at)
				}
			}
			if n := len(slices.Concat(slices.Collect(maps.Values(w.moves))...)); n != 2*2*each*(day+
				1) {
				t.Errorf("%d moves in %d days, want %d", n, day+1, 2*2*each*(day+1))
			}
			w.mu.Unlock()
		}
		stop()
	})
}

// check holds the owners against the hours that have just begun: half an hour of
// each is for moving.
func (w *simNet) check(place map[netip.Prefix]int, hour int) {
	if hour == 6 || hour == 22 || hour == 8 || hour == 20 {
		return
	}
	for p, i := range place {
		who, home := w.holder(p), w.shifts[i]
		switch {
		case !home.closed(time.Now()) && who != home.id:
			w.t.Errorf("%v: %v is at %s, its home %s is open", time.Now(), p, who, home.id)
		case home.closed(time.Now()) && who == home.id:
			w.t.Errorf("%v: %v is still at %s", time.Now(), p, who)
		}
	}
}
