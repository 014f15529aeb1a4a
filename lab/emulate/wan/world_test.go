package wan

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDistanceOfKnownCities(t *testing.T) {
	by := make(map[string]Place)
	for _, p := range Cities() {
		by[p.Name] = p
	}
	if len(by) < 20 {
		t.Fatalf("%d cities, want at least 20", len(by))
	}
	for _, c := range []struct {
		a, b string
		km   float64
	}{{"London", "New York", 5570}, {"Sydney", "London", 16990}, {"Frankfurt", "Milan", 520}} {
		if got := by[c.a].Distance(by[c.b]); got < c.km*0.98 || got > c.km*1.02 {
			t.Errorf("%s to %s is %.0f km, want about %.0f", c.a, c.b, got, c.km)
		}
	}
}

// The links of every world are within the documented ranges.
func TestWorldStaysInItsRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		places := Cities()
		w := NewWorld(places, seed)
		again := NewWorld(places, seed)
		a, b := rapid.IntRange(0, w.Len()-1).Draw(t, "a"), rapid.IntRange(0, w.Len()-1).Draw(t, "b")
		l := w.Link(a, b)
		if l != w.Link(b, a) || l != again.Link(a, b) {
			t.Fatal("link depends on its direction, or equal worlds differ")
		}
		light := fibreRTT(places[a].Distance(places[b]))
		lo := time.Duration(minInflation*float64(light)) + 2*time.Millisecond
		hi := time.Duration(maxInflation*float64(light)) + 24*time.Millisecond
		if l.RTT < lo-time.Microsecond || l.RTT > hi {
			t.Fatalf("%v, want %v to %v", l.RTT, lo, hi)
		}
		if share := float64(l.Jitter) / float64(l.RTT); share < 0.029 || share > 0.051 {
			t.Fatalf("jitter is %.3f of the round trip", share)
		}
		if l.Bps < minBandwidth || l.Bps > maxBandwidth {
			t.Fatalf("bandwidth = %v, out of range", l.Bps)
		}
	})
}

func TestSelectGivesRepeatsTheirOwnLastMile(t *testing.T) {
	w := NewWorld(Cities(), 3).Select([]int{5, 9, 9, 9})
	if w.Len() != 4 || w.Name(2) != "London" {
		t.Fatalf("%d places, the third %q", w.Len(), w.Name(2))
	}
	if w.Link(0, 1).RTT == w.Link(0, 2).RTT || w.Link(0, 2).RTT == w.Link(0, 3).RTT {
		t.Error("two places of one city share their last mile")
	}
	if rtt := w.Link(1, 2).RTT; rtt < 2*time.Millisecond || rtt > 24*time.Millisecond {
		t.Errorf("%v within one city, want the two last miles", rtt)
	}
}

func TestPlanSpreadsPeersAndSites(t *testing.T) {
	w := NewWorld(Cities(), 1)
	rapid.Check(t, func(t *rapid.T) {
		peers, sites := rapid.IntRange(0, 60).Draw(t, "peers"),
			rapid.IntRange(0, 60).Draw(t, "sites")
		seed := rapid.Uint64().Draw(t, "seed")
		p := NewPlan(w, peers, sites, seed)
		if len(p.Peers) != peers || len(p.Sites) != sites || p.World.Len() != peers+sites {
			t.Fatalf("%d peers, %d sites, %d places", len(p.Peers), len(p.Sites), p.World.Len())
		}
		for _, group := range [][]int{p.Peers, p.Sites} {
			uses := make(map[string]int)
			for _, place := range group {
				uses[p.World.Name(place)]++
			}
			for name, n := range uses {
				if most := (len(group) + w.Len() - 1) / w.Len(); n > most {
					t.Fatalf("%s is used %d times by %d", name, n, len(group))
				}
			}
		}
	})
}
