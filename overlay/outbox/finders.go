package outbox

import (
	"math/rand/v2"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/store"
)

// maxFinders is how many senders of URLs are told apart; those that have not sent any for longest
// are forgotten.
const maxFinders = 1024

// finders gives numbers to the peers that send URLs, under which their URLs share the queue of a
// host with those of others. Each gets one of those that the fewest have, at random: none is shared
// before all are in use, and no peer can choose with whom it shares. What senders have not found
// themselves has a number of its own (store.FinderRelayed).
type finders struct {
	mu      sync.Mutex
	numbers *lru.Simple[peer.ID, int]
	peers   [store.Finders]int // how many have each number; none has 0, which is this peer's own
}

func newFinders() *finders {
	f := &finders{}
	f.numbers = lru.NewSimple(maxFinders, func(_ peer.ID, n int) { f.peers[n]-- })
	return f
}

// number returns the number of a peer.
func (f *finders) number(who peer.ID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n, ok := f.numbers.Get(who); ok {
		return n
	}
	best := 0
	for _, i := range rand.Perm(store.FinderRelayed - 1) {
		if n := i + 1; best == 0 || f.peers[n] < f.peers[best] {
			best = n
		}
	}
	f.peers[best]++
	f.numbers.Add(who, best)
	return best
}
