package outbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// errBusy ends a stream. The sender retries later and reads the owner of the subnets again.
var errBusy = errors.New("outbox: too many concurrent batches")

const (
	// gateSlots is how many batches are read and stored concurrently. It also bounds the memory
	// they take.
	gateSlots = 16
	// gateSlotsPerPeer is how many of them one peer may send. An honest peer sends one, plus at
	// most one that it has given up.
	gateSlotsPerPeer = 4
	// gateTimeout is how long a batch waits for a slot.
	gateTimeout = 10 * time.Second
)

// gate limits the number of batches that are received concurrently.
type gate struct {
	slots chan struct{}
	mu    *sync.Mutex
	by    map[peer.ID]int
}

func newGate() gate {
	return gate{slots: make(chan struct{}, gateSlots), mu: &sync.Mutex{}, by: map[peer.ID]int{}}
}

// enter waits for a slot and returns a function that releases it. It returns errBusy if who has
// too many slots or none became free in time.
func (g gate) enter(ctx context.Context, who peer.ID) (leave func(), err error) {
	if !g.acquire(who) {
		return nil, errBusy
	}
	t := time.NewTimer(gateTimeout)
	defer t.Stop()
	select {
	case g.slots <- struct{}{}:
		return func() {
			<-g.slots
			g.release(who)
		}, nil
	case <-t.C:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.release(who)
	return nil, err
}

func (g gate) acquire(who peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[who] >= gateSlotsPerPeer {
		return false
	}
	g.by[who]++
	return true
}

func (g gate) release(who peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[who]--; g.by[who] == 0 {
		delete(g.by, who)
	}
}
