package outbox

import (
	"fmt"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// Peers share a number only if there are more than numbers, and then with as few as possible. A
// peer keeps its number while it sends URLs.
func TestFinders(t *testing.T) {
	f := newFinders()
	name := func(i int) peer.ID { return peer.ID(fmt.Sprint("peer ", i)) }
	by := map[int]int{}
	first := f.number(name(0))
	for i := range 10 * (store.FinderRelayed - 1) {
		n := f.number(name(i))
		if n < 1 || n >= store.FinderRelayed {
			t.Fatalf("number = %d, want 1 to %d", n, store.FinderRelayed-1)
		}
		by[n]++
		if most := i/(store.FinderRelayed-1) + 1; by[n] > most {
			t.Fatalf("%d of %d peers have the number %d, want at most %d", by[n], i+1, n, most)
		}
	}
	for i := range 3 * maxFinders {
		f.number(name(1_000_000 + i))
		if got := f.number(name(0)); got != first {
			t.Fatalf("the number of a peer that sends URLs changed from %d to %d", first, got)
		}
	}
	sum := 0
	for _, n := range f.peers {
		sum += n
	}
	if sum != maxFinders {
		t.Errorf("%d peers are counted, want %d", sum, maxFinders)
	}
}

// No peer can choose with whom it shares a number.
func TestFindersAreRandom(t *testing.T) {
	with := map[int]bool{}
	for range 200 {
		f := newFinders()
		for i := range store.FinderRelayed - 1 {
			f.number(peer.ID(fmt.Sprint("peer ", i)))
		}
		attacker := f.number("attacker")
		for i := range store.FinderRelayed - 1 {
			if f.number(peer.ID(fmt.Sprint("peer ", i))) == attacker {
				with[i] = true
			}
		}
	}
	if len(with) < store.Finders/2 {
		t.Errorf("in 200 attempts a peer shared its number with %d different ones, want most of %d",
			len(with), store.FinderRelayed-1)
	}
}
