package owner

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/store"
)

// A better lease ends ours: what is queued goes to the winner, in portions.
func TestYield(t *testing.T) {
	t.Parallel()
	const n = 2300
	m := join(t, alice, newDHT(), nil, nil)
	_, sealed := rival(t, subnetA, alice)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, n)
	m.plant("b.test", subnetB, addrB, 1) // another subnet
	m.resolver.Learn([]byte("rubbish"))
	m.resolver.Learn(sealed)
	if _, hold := m.placement.Where(subnetA); !hold || m.frontier.Owns("a.test") {
		t.Error("still open")
	}
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	if m.routedURLs() != n || m.queued("a.test") != 0 || m.queued("b.test") != 1 {
		t.Errorf("%d routed, %d and %d queued", m.routedURLs(), m.queued("a.test"),
			m.queued("b.test"))
	}
	if m.routed[0].Hint != addrA || m.routed[0].URL != "http://a.test/0" {
		t.Errorf("routed %+v", m.routed[0])
	}
	if _, ok := m.stored(subnetA); ok {
		t.Error("the record is still there")
	}
	if c := m.cfg.DB.Counters(); c.HandoversOut != 0 {
		t.Errorf("counters %+v", c)
	}
}

// The winner is told of each host what was fetched, before the subnet is deleted. It leaves also if
// that fails.
func TestYieldTellsFetched(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"told": nil, "refused": hosttransfer.ErrRefused,
		"silent": errors.New("no connection")} {
		var told []hosttransfer.Offer
		var m *member
		var to peer.ID
		m = join(t, alice, newDHT(), nil, func(c *Config) {
			c.Transferrer = transferFunc(func(_ context.Context, p peer.ID,
				o hosttransfer.Offer) error {
				if o.Lost != nil && m.Live(subnetA) {
					to, told = p, append(told, o)
				}
				return failure
			})
		})
		by, sealed := rival(t, subnetA, alice)
		m.claim(subnetA)
		m.plant("a.test", subnetA, addrA, 1)
		m.plant("b.test", subnetA, addrA, 1)
		ours, _, err := m.cfg.Leases.Lookup(t.Context(), subnetA)
		if err != nil {
			t.Fatal(err)
		}
		m.resolver.Learn(sealed)
		m.run()
		until(t, "it is gone", func() bool { return !m.Live(subnetA) })
		want := 2
		if name == "silent" {
			want = 1 // it is not asked about the other host
		}
		if len(told) != want || to != by.id || m.routedURLs() != 2 {
			t.Fatalf("%s: told %v of %+v; %d routed", name, to, told, m.routedURLs())
		}
		for i, o := range told {
			l, err := lease.OpenLease(o.Lost)
			if err != nil || l.Digest() != ours.Digest() || o.Host != []string{"a.test",
				"b.test"}[i] {
				t.Errorf("%s: told of %s under %+v, %v", name, o.Host, l, err)
			}
		}
	}
}

// Yielding that is cut short by the end, or goes wrong, is done again.
func TestYieldIsRepeated(t *testing.T) {
	t.Parallel()
	db, dht := openStore(t), newDHT()
	fail := true
	m := join(t, alice, dht, db, func(c *Config) {
		route := c.Outbox.Route
		c.Outbox = outboxWith{Outbox: c.Outbox, route: func(ps []store.Pending) error {
			if fail {
				fail = false
				return errors.New("full")
			}
			return route(ps)
		}}
	})
	_, sealed := rival(t, subnetA, alice)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.frontier.busy = make(chan struct{})
	m.resolver.Learn(sealed)
	stop := m.run()
	until(t, "it is about to leave", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.table.subnets[subnetA].moving
	})
	stop() // in mid-Pause
	if !m.Live(subnetA) || m.queued("a.test") != 3 {
		t.Fatal("it was lost")
	}
	close(m.frontier.busy)
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	if fail || m.routedURLs() != 3 {
		t.Errorf("%d routed", m.routedURLs())
	}
}

// A renewal that meets a better lease yields, too, also when the clock of ours
// has run out.
func TestRenewalIsBeaten(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	m := join(t, alice, dht, nil, nil)
	by, sealed := rival(t, subnetA, alice)
	m.claim(subnetA)
	dht.Plant(lease.Key(subnetA), sealed)
	m.mu.Lock()
	m.table.subnets[subnetA].renewAt = time.Time{}
	m.mu.Unlock()
	m.run()
	until(t, "it is gone", func() bool { return !m.Live(subnetA) })
	m.say("a.test", addrA)
	r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
	if err != nil || r.Kind != outbox.Foreign || r.Owner != by.id {
		t.Errorf("resolved to %+v, %v", r, err)
	}
}

// An own lease beyond its grace gives no right until it was renewed.
func TestStaleLease(t *testing.T) {
	t.Parallel()
	db, dht := openStore(t), newDHT()
	then := time.Now().Add(-3 * lease.Grace)
	sealed, err := lease.SealLease(lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1,
		Issued: then, Expires: then.Add(time.Minute)}, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := cbor.Marshal([]coords.Sample{})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: subnetA, Phase: store.PhaseOwned, Lease: sealed,
			Epoch: 1, Since: then, Evidence: evidence})
	})
	if err != nil {
		t.Fatal(err)
	}
	m := join(t, alice, dht, db, nil)
	if _, hold := m.placement.Where(subnetA); !hold || !m.frontier.is(m.frontier.shut, subnetA) {
		t.Error("open before the renewal")
	}
	m.run()
	until(t, "it is open", func() bool { return !m.frontier.is(m.frontier.shut, subnetA) })
	if who, hold := m.placement.Where(subnetA); who != "" || hold {
		t.Errorf("after the renewal: %q, held %v", who, hold)
	}
}
