package wire

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestLimiter(t *testing.T) {
	rate := Rate{PerSecond: 50, AtOnce: 200, Together: 4}
	now := time.Unix(1000, 0)
	count := func(l *Limiter, p string, at time.Time) (n int) {
		for l.Allow(rate, peer.ID(p), at) {
			n++
		}
		return n
	}
	var l Limiter
	if n := count(&l, "a", now); n != rate.AtOnce {
		t.Errorf("%d at once", n)
	}
	if n := count(&l, "a", now.Add(time.Second)); n != rate.PerSecond {
		t.Errorf("%d in the next second", n)
	}
	var several Limiter
	together := 0
	for i := range 20 {
		together += count(&several, string(rune(1000+i)), now)
	}
	if together != rate.Together*rate.AtOnce {
		t.Errorf("%d at once for twenty peers", together)
	}
	// A million a second together: what bounds is how many are remembered.
	many := Rate{PerSecond: 1, AtOnce: 10, Together: 1_000_000}
	for i := range maxAskers + 10 {
		if l.Allow(many, peer.ID(string(rune(1000+i))), now) != (i < maxAskers-1) {
			t.Fatalf("the %d. peer", i)
		}
	}
	if len(l.until) != maxAskers {
		t.Errorf("%d remembered", len(l.until))
	}
	if !l.Allow(many, "late", now.Add(time.Hour)) || len(l.until) != 1 {
		t.Errorf("%d remembered an hour later", len(l.until))
	}
}
