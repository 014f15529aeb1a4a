//go:build integration

package owner

import (
	"context"
	"math"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"peerd/coords/assign"
	"peerd/store"
)

// fetching has each subnet's owner, or its scout, fetch a page every two seconds; x says
// where subnets are. A page from d ms away takes two round trips and 30 ms, more or less.
func (w *simNet) fetching(rng *rand.Rand, x map[netip.Prefix]float64, d time.Duration) {
	at := map[string]float64{}
	for _, s := range w.shifts {
		at[s.id.String()] = s.x
	}
	for i := range int(d / (2 * time.Second)) {
		for p := range x {
			for self, m := range w.peers {
				if !m.Live(p) {
					continue
				}
				who, hold := m.placement.Where(p)
				if hold {
					continue
				}
				from := at[self]
				if who != "" {
					from = at[who]
				}
				rtt := time.Duration((5 + math.Abs(from-x[p])) * math.Exp(
					0.2*rng.NormFloat64()) * float64(time.Millisecond))
				m.placement.Observe(p, who, store.FetchReport{
					Outcome: store.OutcomeOK, Bytes: 10_000, Timing: store.Timing{Connect: rtt,
						FirstByte: rtt + 30*time.Millisecond},
				}, nil)
			}
		}
		time.Sleep(2 * time.Second)
		if i%15 == 0 {
			w.announce()
		}
	}
}

// A peer that comes gets, by the cost that samples and proxies say, what it is the
// nearest to, though all of it was decided before; nothing moves among the others.
// When it goes, it gives back, and each subnet moves once more at the most. While no peer
// comes or goes, nothing moves.
func TestPeersJoinAndLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		places := []float64{0, 100, 200}
		strategy := func(c *Config) {
			s, err := assign.NewProxy(assign.DefaultProxyConfig())
			if err != nil {
				t.Fatal(err)
			}
			watch := assign.DefaultReviewConfig()
			c.Strategy, c.Adapt, c.Tick = s, &watch, 2*time.Second
		}
		w := newSimNet(t, strategy, shift{someone: alice}, shift{someone: bob, x: 100},
			shift{someone: carol, x: 200, away: true})
		stop := w.run()
		w.announce()
		rng := rand.New(rand.NewPCG(3, 9))
		x := map[netip.Prefix]float64{}
		for i := range 6 {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)
			x[p] = places[i%3]
			w.begin(folk[i%2], p)
		}
		w.fetching(rng, x, 30*time.Minute)
		settled := w.count()
		nearest := func(when string, peers []someone) {
			for p, at := range x {
				if who := w.holder(p); who != peers[min(int(at)/100, len(peers)-1)].id {
					t.Errorf("%s: %v at %v ms is at %s", when, p, at, who)
				}
			}
		}
		nearest("in the beginning", folk[:2])

		w.present(carol, true)
		came := time.Now()
		w.fetching(rng, x, 20*time.Minute)
		nearest("a peer has come", folk[:3])
		if n := w.count() - settled; n != 2 {
			t.Errorf("%d moves for a newcomer that is nearest to 2 subnets", n)
		}
		t.Logf("the last one came after %v", w.last().Sub(came))
		w.fetching(rng, x, time.Hour)
		if n := w.count() - settled; n > 2 {
			t.Errorf("%d more moves in an hour without a peer joining or leaving", n-2)
		}

		w.present(carol, false)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.peers[carol.id.String()].Drain(ctx); err != nil {
			t.Error(err)
		}
		if n := w.count() - settled - 2; n != 2 {
			t.Errorf("%d moves as it left", n)
		}
		w.fetching(rng, x, 40*time.Minute) // successors are spread over all that are nearly as near
		nearest("it has left", folk[:2])
		after := w.count()
		w.fetching(rng, x, 30*time.Minute)
		if n := w.count() - after; n > 0 || after > settled+4+2 {
			t.Errorf("%d moves to set right who has them, then %d", after-settled-4, n)
		}
		stop()
	})
}

// present sets whether a peer is in the others' directories.
func (w *simNet) present(who someone, is bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.shifts {
		if w.shifts[i].id == who.id {
			w.shifts[i].away = !is
		}
	}
}

// count is how many moves there were, and last when the last one was.
func (w *simNet) count() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.moves {
		n += len(at)
	}
	return n
}

func (w *simNet) last() (last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.moves {
		for _, at := range all {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}
