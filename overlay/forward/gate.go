package forward

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// errBusy breaks a conversation off: the sender comes again later.
var errBusy = errors.New("forward: too many batches at once")

const (
	// gatePlaces bounds the batches that are being read and stored at once,
	// and with their size the memory that they take.
	gatePlaces = 16
	// gateEach is how many of them may come from one peer. An honest one has
	// one under way, and perhaps one that it has given up.
	gateEach = 4
	// gateWait is how long a batch waits for a place.
	gateWait = 10 * time.Second
)

// gate bounds what is taken in at once.
type gate struct {
	places chan struct{}
	mu     *sync.Mutex
	by     map[peer.ID]int
}

func newGate() gate {
	return gate{places: make(chan struct{}, gatePlaces), mu: &sync.Mutex{}, by: map[peer.ID]int{}}
}

// enter waits for a place and returns how to give it back, or errBusy.
func (g gate) enter(ctx context.Context, who peer.ID) (leave func(), err error) {
	if !g.count(who) {
		return nil, errBusy
	}
	t := time.NewTimer(gateWait)
	defer t.Stop()
	select {
	case g.places <- struct{}{}:
		return func() {
			<-g.places
			g.uncount(who)
		}, nil
	case <-t.C:
		err = errBusy
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.uncount(who)
	return nil, err
}

func (g gate) count(who peer.ID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[who] >= gateEach {
		return false
	}
	g.by[who]++
	return true
}

func (g gate) uncount(who peer.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[who]--; g.by[who] == 0 {
		delete(g.by, who)
	}
}
