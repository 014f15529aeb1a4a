package hostmove

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/hosttransfer"
	"peerd/overlay/overlaytest"
	"peerd/store"
)

// encode makes the encoder that all change logs share, which must not belong to a bubble.
func encode(t *testing.T) {
	t.Helper()
	db := overlaytest.Store(t, "")
	err := db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: mover, Subnet: oldNet})
		return tx.PutState(mover, make([]byte, 1000)) // small records are not compressed
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *store.Tx) error {
		raw, _, err := tx.Snapshot(oldNet, nil, 1<<16)
		if err == nil {
			_, err = store.DecodeOps(raw)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// logged starts the change logs of both subnets.
func (m *member) logged() {
	m.t.Helper()
	for i, p := range []netip.Prefix{oldNet, newNet} {
		if err := m.cfg.DB.StartLog(p, uint64(i+1), store.LogPos{}); err != nil {
			m.t.Fatal(err)
		}
	}
}

// copied reports whether a replica has mover after the records of a subnet's change log, if before
// says whether it had it.
func (m *member) copied(p netip.Prefix, before bool) bool {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		return tx.LogRecords(p, 0, func(_ uint64, raw []byte) (bool, error) {
			ops, err := store.DecodeOps(raw)
			for _, o := range ops {
				if o.Name == mover && (o.Kind == store.OpHost || o.Kind == store.OpDeleteHost) {
					before = o.Kind == store.OpHost
				}
			}
			return true, err
		})
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return before
}

// While a host moves between two subnets of ours the replicas of one of them have it, also if this
// peer is started again and has lost the old subnet. It is fetched when the move has ended.
func TestReplicasHaveHostThatMovesWithin(t *testing.T) {
	encode(t)
	for name, restart := range map[string]bool{"running": false, "started again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dht := newDHT()
				m := join(t, folk[0], dht, nil, nil)
				m.settle(5)
				m.claim(newNet)
				m.logged()
				m.own.setUnsafe(true)
				m.relocate(mover, &move{From: oldNet, To: newNet, Addr: newAddr})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan error)
				go func() { done <- m.Run(ctx) }()
				wait(5 * time.Minute)
				if p, _ := m.f.in(mover); !m.copied(oldNet, true) || !m.copied(newNet, false) ||
					p.IsValid() || m.intents() != 1 || m.own.entered(newNet) > 1 {
					t.Errorf("at the old replicas: %v, at the new ones: %v, fetched in %v; "+
						"want true, true and nowhere", m.copied(oldNet, true),
						m.copied(newNet, false), p)
				}
				if restart {
					cancel()
					if err := <-done; err != nil {
						t.Fatal(err)
					}
					own := m.own
					delete(own.sealed, oldNet) // taken over meanwhile
					m = join(t, folk[0], dht, m.cfg.DB, nil)
					m.own, m.cfg.Subnets = own, own
					m.run()
				}
				m.own.setUnsafe(false)
				wait(2 * time.Minute)
				if p, a := m.f.in(mover); m.copied(oldNet, true) || !m.copied(newNet, false) ||
					p != newNet || a != newAddr || m.intents() != 0 || m.InTransit(mover) {
					t.Errorf("at the old replicas: %v, at the new ones: %v, fetched in %v at %v",
						m.copied(oldNet, true), m.copied(newNet, false), p, a)
				}
				if m.own.entered(oldNet)+m.own.entered(newNet) != 0 {
					t.Error("a subnet is held")
				}
				if !restart {
					cancel()
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// A peer that keeps a copy of the new home keeps a host there that it has sent to the owner. If it
// has become the owner meanwhile, the host is its own.
func TestSentHostIsInCopy(t *testing.T) {
	encode(t)
	for name, c := range map[string]struct {
		copied, becomesOurs bool
		home                netip.Prefix // where the host is stored afterwards
		fetched             bool
	}{
		"no copy":                  {home: netip.Prefix{}},
		"copy":                     {copied: true, home: newNet},
		"copy that was taken over": {copied: true, becomesOurs: true, home: newNet, fetched: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dht := newDHT()
				other := join(t, folk[1], dht, nil, nil)
				var m *member
				phase := func(ph store.Phase) error {
					return m.cfg.DB.Update(func(tx *store.Tx) error {
						return tx.PutSubnet(store.Subnet{Prefix: newNet, Phase: ph})
					})
				}
				m = join(t, folk[0], dht, nil,
					transferFunc(func(context.Context, peer.ID, hosttransfer.Offer) error {
						if !c.becomesOurs {
							return nil
						}
						m.own.mu.Lock()
						defer m.own.mu.Unlock()
						m.own.sealed[newNet] = other.own.sealed[newNet]
						return phase(store.PhaseOwned)
					}))
				m.settle(5)
				other.claim(newNet)
				if c.copied {
					if err := phase(store.PhaseReplica); err != nil {
						t.Fatal(err)
					}
				}
				m.logged()
				m.relocate(mover, &move{From: oldNet, To: newNet, Addr: newAddr})
				m.run()
				wait(time.Minute)
				h, queued, here := m.stored(mover)
				if h.Subnet != c.home || here && queued != 5 || m.copied(oldNet, true) {
					t.Errorf("stored in %v, %d URLs, at the old replicas: %v; want %v, 5, false",
						h.Subnet, queued, m.copied(oldNet, true), c.home)
				}
				if p, _ := m.f.in(mover); p.IsValid() != c.fetched || m.InTransit(mover) {
					t.Errorf("fetched in %v, in transit %v", p, m.InTransit(mover))
				}
			})
		})
	}
}
