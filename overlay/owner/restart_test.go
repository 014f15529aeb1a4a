package owner

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/ownership"
	"peerd/store"
)

// An owner that is killed while another peer fetches for it asks that peer
// again, or no peer until it must be over: else the server would be asked twice
// at once.
func TestAskedOutlivesRestart(t *testing.T) {
	t.Parallel()
	db, dht := openStore(t), newDHT()
	m := join(t, alice, dht, db, func(c *Config) {
		c.Estimate = fetchFunc(func(context.Context, peer.ID, []byte, store.FetchRequest) (
			store.FetchReport, error) {
			return store.FetchReport{Outcome: store.OutcomeOK}, nil
		})
	})
	m.strategy.next = probeFirst(bob)
	m.claim(subnetA)
	if _, err := m.placement.Remote(t.Context(), subnetA, bob.id.String(),
		store.FetchRequest{}); err != nil {
		t.Fatal(err)
	}

	// killed before it could observe, and bob not yet in the directory
	m = join(t, alice, dht, db, nil)
	if who, hold := m.placement.Where(subnetA); !hold {
		t.Errorf("%q fetches although another may be fetching", who)
	}
	m = join(t, alice, dht, db, func(c *Config) { c.Directory = directory{alice, bob} })
	if who, hold := m.placement.Where(subnetA); who != bob.id.String() || hold {
		t.Errorf("asked %q, hold %v; want the peer that was asked before", who, hold)
	}
	m.placement.Observe(subnetA, bob.id.String(), store.FetchReport{Outcome: store.OutcomeOK}, nil)
	if who, hold := m.placement.Where(subnetA); who != "" || hold {
		t.Errorf("after the answer: %q, hold %v; want the strategy's choice", who, hold)
	}
}

// The intention to leave does not survive a restart, the commit does.
func TestRestart(t *testing.T) {
	t.Parallel()
	db, dht := openStore(t), newDHT()
	granted := make(chan []byte, 8)
	change := func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Sender = sendFunc(func(_ context.Context, _ peer.ID, _ handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			g, err := grant()
			if err != nil {
				return nil, err
			}
			granted <- g
			return nil, handover.ErrOutcomeUnknown
		})
	}
	m := join(t, alice, dht, db, change)
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	// writes the state
	m.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeOK}, nil)

	m = join(t, alice, dht, db, change)
	if s := m.subnets[subnetA]; s == nil || s.unit.State != ownership.Deciding ||
		len(s.history) != 1 {
		t.Fatalf("after the intention: %+v", s)
	}
	if !m.frontier.is(m.frontier.single, subnetA) {
		t.Error("not in single file")
	}
	m.strategy.next = choose(bob)
	m.placement.Where(subnetA)
	stop := m.run()
	first := <-granted
	stop()
	if s, ok := m.stored(subnetA); !ok || s.Phase != store.PhaseCommitting ||
		s.Successor != bob.id.String() {
		t.Fatalf("stored %+v", s)
	}

	m = join(t, alice, dht, db, change)
	if _, hold := m.placement.Where(subnetA); !hold || !m.frontier.is(m.frontier.shut, subnetA) {
		t.Error("a committed subnet is open")
	}
	m.strategy.next = choose(alice) // has no say any more
	stop = m.run()
	if again := <-granted; string(again) != string(first) {
		t.Error("another grant was signed")
	}
	stop()
	if m.phase(subnetA) != store.PhaseCommitting {
		t.Errorf("phase %v", m.phase(subnetA))
	}
	if _, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{}); !errors.Is(err,
		m.nothing) {
		t.Error(err)
	}
	m.names["a.test"] = []netip.Addr{addrA}
	if _, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{}); !errors.Is(err,
		errLeaving) {
		t.Errorf("a host of a committed subnet: %v", err)
	}
}

// A grant that was saved before a crash is not sent if another peer has taken the subnet over
// meanwhile, which the successor may not know.
func TestGrantAfterTakeover(t *testing.T) {
	t.Parallel()
	dht, db := newDHT(), openStore(t)
	var late atomic.Bool
	change := func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Sender = sendFunc(func(_ context.Context, _ peer.ID, _ handover.Offer,
			grant func() ([]byte, error)) ([]byte, error) {
			if late.Load() {
				t.Error("the subnet was offered after the takeover")
			}
			_, err := grant()
			return nil, errors.Join(err, handover.ErrOutcomeUnknown)
		})
	}
	m := join(t, alice, dht, db, change)
	m.strategy.next = choose(bob)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	stop := m.run()
	until(t, "it is granted", func() bool { return m.phase(subnetA) == store.PhaseCommitting })
	stop()
	takenBy(t, carol, dht)
	late.Store(true)
	m = join(t, alice, dht, db, change)
	m.run()
	until(t, "it is yielded", func() bool { return !m.Live(subnetA) })
	if n := m.routedURLs(); n != 3 {
		t.Errorf("%d URLs were routed to the new owner, want 3", n)
	}
}
