package wire

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestLimiter(t *testing.T) {
	rate := Rate{PerSecond: 50, Burst: 200, TotalFactor: 4}
	now := time.Unix(1000, 0)
	count := func(l *Limiter, p string, at time.Time) (n int) {
		for l.Allow(rate, peer.ID(p), at) {
			n++
		}
		return n
	}
	var l Limiter
	if n := count(&l, "a", now); n != rate.Burst {
		t.Errorf("%d requests at once, want %d", n, rate.Burst)
	}
	if n := count(&l, "a", now.Add(time.Second)); n != rate.PerSecond {
		t.Errorf("%d requests in the next second, want %d", n, rate.PerSecond)
	}
	var several Limiter
	together := 0
	for i := range 20 {
		together += count(&several, string(rune(1000+i)), now)
	}
	if together != rate.TotalFactor*rate.Burst {
		t.Errorf("%d requests of twenty peers at once, want %d",
			together, rate.TotalFactor*rate.Burst)
	}
	// With a very large total, the number of remembered peers is the bound.
	many := Rate{PerSecond: 1, Burst: 10, TotalFactor: 1_000_000}
	for i := range maxPeers + 10 {
		if l.Allow(many, peer.ID(string(rune(1000+i))), now) != (i < maxPeers-1) {
			t.Fatalf("Allow() for peer %d = %v, want %v", i, i >= maxPeers-1, i < maxPeers-1)
		}
	}
	if len(l.until) != maxPeers {
		t.Errorf("%d peers remembered, want %d", len(l.until), maxPeers)
	}
	if !l.Allow(many, "late", now.Add(time.Hour)) || len(l.until) != 1 {
		t.Errorf("%d peers remembered an hour later, want 1", len(l.until))
	}
}
