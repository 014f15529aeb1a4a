package owner

import (
	"context"
	"errors"
	"testing"
	"time"

	"peerd/store"
)

// A peer that leaves hands over all it has, a subnet that is being estimated too,
// and takes nothing any more.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	m := p.owner
	m.strategy.next = choose(alice)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 700)
	m.strategy.next = probeFirst(alice)
	m.claim(subnetB)
	m.plant("b.test", subnetB, addrB, 2)
	m.run()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	if err := m.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	h := p.successor
	if h.phase(subnetA) != store.PhaseOwned || h.phase(subnetB) != store.PhaseDeciding {
		t.Errorf("at the successor: %v and %v", h.phase(subnetA), h.phase(subnetB))
	}
	if h.queued("a.test") != 700 || h.queued("b.test") != 2 || m.routedURLs() > 0 {
		t.Errorf("%d and %d URLs, %d routed", h.queued("a.test"), h.queued("b.test"),
			m.routedURLs())
	}
	if err := m.claimer.Claim(t.Context(), subnetA); !errors.Is(err, errDraining) {
		t.Errorf("a claim: %v", err)
	}
	if m.cfg.DB.Counters().HandoversOut != 2 {
		t.Errorf("%d handovers", m.cfg.DB.Counters().HandoversOut)
	}
}

// If no peer accepts subnets, all stay and are worked on until the end.
func TestDrainAlone(t *testing.T) {
	t.Parallel()
	m, _, _ := sheltered(t)
	m.run()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.Drain(ctx); !errors.Is(err, ErrLeft) {
		t.Error(err)
	}
	if _, hold := m.placement.Where(subnetA); hold || !m.Live(subnetA) {
		t.Error("nothing is fetched")
	}
}
