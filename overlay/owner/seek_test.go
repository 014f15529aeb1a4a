package owner

import (
	"net/netip"
	"testing"

	"peerd/coords"
	"peerd/coords/assign"
)

func TestSeekerAsksSeldom(t *testing.T) {
	p, q := netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("198.51.100.0/24")
	at, later := &coords.Proxy{Scale: 1, Samples: 3}, &coords.Proxy{Scale: 1, Samples: 6}
	var k seeker
	for i, c := range []struct {
		p    netip.Prefix
		step assign.Step
		want bool
	}{
		{p, assign.Step{Probe: "a"}, false}, // no place yet
		{p, assign.Step{Probe: "b", Proxy: at}, true},
		{p, assign.Step{Probe: "c", Proxy: at}, false},
		{p, assign.Step{Probe: "c", Proxy: later}, true},
		{p, assign.Step{Probe: "c", Proxy: later}, false},
		{q, assign.Step{Probe: "a", Proxy: at}, true},
		{p, assign.Step{Choice: "a", Proxy: at}, false},
		{p, assign.Step{Probe: "a", Proxy: at}, true}, // decided anew
	} {
		if got := k.note(c.p, c.step); got != c.want {
			t.Errorf("step %d: %v, want %v", i, got, c.want)
		}
	}
	k.note(p, assign.Step{Choice: "a"})
	if len(k.due) != 1 || len(k.asked) != 1 {
		t.Errorf("left: %v, %v", k.due, k.asked)
	}
}

// Many subnets found at once do not become as many searches at once.
func TestSeekerBoundsSearches(t *testing.T) {
	const n = 3 * seeksAtOnce
	var k seeker
	for i := range n {
		k.note(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), 0}), 24), assign.Step{Probe: "a", Proxy: &coords.Proxy{Scale: 1, Samples: 3}})
	}
	begin := func() (n int) {
		for _, _, ok := k.begin(); ok; _, _, ok = k.begin() {
			n++
		}
		return n
	}
	if got := begin(); got != seeksAtOnce {
		t.Errorf("%d began, want %d", got, seeksAtOnce)
	}
	if k.end(); !k.end() || begin() != 2 {
		t.Error("two ended, and not two others began")
	}
	for p := range k.asked {
		k.forget(p)
	}
	if k.end() || begin() != 0 || len(k.asked)+len(k.due) != 0 {
		t.Errorf("forgotten, and still there: %v, %v", k.asked, k.due)
	}
}
