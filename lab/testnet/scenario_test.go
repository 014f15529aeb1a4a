package testnet

import (
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
)

var noon = time.Date(2030, 6, 1, 12, 0, 0, 0, time.UTC)

// fetches returns a log with one fetch per second; each letter is a peer, from a on.
func fetches(s string) (all []fetchOf) {
	for i, r := range s {
		all = append(all, fetchOf{noon.Add(time.Duration(i) * time.Second), int(r - 'a')})
	}
	return all
}

// A move begins with the fetches of which eight in ten are the new peer's. Single fetches of
// scouts and late answers do not count.
func TestSince(t *testing.T) {
	long := strings.Repeat("b", 300)
	for _, tc := range []struct {
		log  string
		want time.Duration
		ok   bool
	}{
		{"aaaaa" + "bbbbbbbbbbbbbbbbbbbb", 5 * time.Second, true},
		{"aaaaaaaaaaaaaaaaaaaa" + long, 20 * time.Second, true}, // and remains there
		{"aabaa" + "bbbbbbbabbbbbbabbbbbbbb", 5 * time.Second, true},
		{"aaa" + long + "aaaaaaaaaa", 0, false},
		{"bbbbbbbbbbbbbbb" + "aaaaaaaaaaaaa", 0, false},
		{"aaaaaaaaaaaaaaabbb", 0, false},
		{"bbbbbbbbbbbb", 0, true},
		{"", 0, false},
	} {
		got, ok := since(fetches(tc.log), noon, noon.Add(time.Hour), func(p int) bool {
			return p != 0
		})
		if ok != tc.ok || got > tc.want || got < tc.want-3*time.Second {
			t.Errorf("since(%.30s) = %v, %v, want %v, %v", tc.log, got, ok, tc.want, tc.ok)
		}
	}
	if _, ok := since(fetches("aaaaabbbbbbbbbbbbbbb"), noon, noon.Add(8*time.Second),
		func(p int) bool {
			return p != 0
		}); ok {
		t.Error("since() used fetches after the end of the interval")
	}
}

func TestSpans(t *testing.T) {
	all, in2, t50, t90 := spans([]float64{130, 10, 20, 30, 40, 50, 60, 70, 80}, 10)
	if all != 0.9 || in2 != 0.8 || t50 != 50 || t90 != 130 {
		t.Errorf("%v %v %v %v", all, in2, t50, t90)
	}
	if all, _, t50, t90 := spans(nil, 0); all != 0 || t50 != -1 || t90 != -1 {
		t.Errorf("spans() of nothing = %v, _, %v, %v", all, t50, t90)
	}
}

// The world during a fault differs from the world before it as the scenario says, and is
// restored afterwards.
func TestChangedWorld(t *testing.T) {
	base := wan.NewWorld(wan.Cities(), 1).WithBandwidth(minBandwidth, maxBandwidth)
	for name, wantRTT := range map[string]time.Duration{"bandwidth": 0, "load": loadDelay} {
		s := &scenario{run: &run{o: Options{Scenario: name}, layout: layoutOf(base)}, base: base,
			peer: 2}
		before, now := base.Link(2, 5), s.changed().Link(2, 5)
		if now.RTT-before.RTT != wantRTT || (name == "bandwidth") != (now.Bps < before.Bps) {
			t.Errorf("%s: link %+v during the fault, %+v before", name, now, before)
		}
	}
}

func layoutOf(w *wan.World) emulate.Layout {
	l := emulate.Layout{World: w}
	for i := range 8 {
		l.PeerPlaces = append(l.PeerPlaces, i)
	}
	return l
}
