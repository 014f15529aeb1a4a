package owner

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/outbox"
	"peerd/store"
)

var addrC = netip.MustParseAddr("192.0.2.77")

// wordFunc is a Confirmer.
type wordFunc func(peer.ID) Word

func (f wordFunc) Confirm(_ context.Context, who peer.ID, _ store.URL) Word { return f(who) }

// plantHome makes two peers: alice, who owns the subnet of a host's address, and bob, who owns
// another one and has written a home record of the host that names it.
func plantHome(t *testing.T, host string, say func(peer.ID) Word, found ...netip.Addr) *member {
	t.Helper()
	dht := newDHT()
	other := join(t, bob, dht, nil, nil)
	m := join(t, alice, dht, nil, func(c *Config) { c.Confirm = wordFunc(say) })
	m.claim(subnetA)
	other.claim(subnetB)
	sealed, err := home.Seal(home.Record{Host: host, Subnet: subnetB, By: bob.id,
		Issued: time.Now().Add(-time.Hour), Epoch: 1}, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := dht.Peer().Put(t.Context(), home.Key(host), sealed); err != nil {
		t.Fatal(err)
	}
	m.outboxMu.Lock()
	m.names[host] = found
	m.outboxMu.Unlock()
	m.plantPending(store.URL("https://" + host + "/"))
	return m
}

// TestHomeElsewhere verifies which home records are believed that name a subnet without an
// address of the host.
func TestHomeElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		word  Word
		found []netip.Addr
		want  outbox.Kind
	}{
		"of a stranger":      {Strange, []netip.Addr{addrA}, outbox.Own},
		"denied":             {Denies, []netip.Addr{addrA}, outbox.Own},
		"confirmed":          {Confirms, []netip.Addr{addrA}, outbox.Foreign},
		"no answer":          {Silent, []netip.Addr{addrA}, outbox.Foreign},
		"with an address":    {Strange, []netip.Addr{addrA, addrB}, outbox.Foreign},
		"too young, for now": {Young, []netip.Addr{addrA}, 0},
		// The lowest subnet is the home as if there were no record.
		"of a stranger, wider": {Strange, []netip.Addr{addrA, addrC}, outbox.Unowned},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := plantHome(t, "a.test", func(peer.ID) Word { return c.word }, c.found...)
				r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
				if c.word == Denies {
					if err == nil {
						t.Errorf("Resolve() = %+v after one denial, want an error", r)
					}
					time.Sleep(deniedTwice)
					r, err = m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
				}
				if r.Kind != c.want || (err == nil) != (c.want != 0) {
					t.Errorf("Resolve() = %+v, %v, want %v", r, err, c.want)
				}
				if c.want == outbox.Own && m.resolver.HomeElsewhere("a.test", subnetA) {
					t.Error("URLs that others send are refused for the record")
				}
			})
		})
	}
}

// TestDeniedByTwo verifies that a denial of the owner of one home does not count for the next home,
// to which the host may be on its way.
func TestDeniedByTwo(t *testing.T) {
	t.Parallel()
	c, now := newHomeChecks(), time.Now()
	for i, d := range []struct {
		home  netip.Prefix
		after time.Duration
		want  bool
	}{
		{subnetA, 0, false}, {subnetB, deniedTwice, false},
		{subnetB, deniedTwice + time.Second, false},
		{subnetB, 2 * deniedTwice, true}, {subnetB, 2*beliefFor + deniedTwice, false},
	} {
		if got := c.deny("a.test", d.home, now.Add(d.after)); got != d.want {
			t.Errorf("denial %d, of %v after %v: %v, want %v", i, d.home, d.after, got, d.want)
		}
	}
	if _, decided := c.get("a.test", subnetB, now.Add(deniedTwice)); decided {
		t.Error("a denial decides")
	}
}

// TestHomeJustMoved verifies that the owner is not asked if a fresh look-up shows the home.
func TestHomeJustMoved(t *testing.T) {
	t.Parallel()
	m := plantHome(t, "a.test", func(peer.ID) Word {
		t.Error("asked")
		return Strange
	}, addrA)
	m.cfg.ResolveFresh = func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{addrB}, nil
	}
	m.resolver.cfg.ResolveFresh = m.cfg.ResolveFresh
	r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
	if err != nil || r.Kind != outbox.Foreign || r.Owner != bob.id {
		t.Errorf("Resolve() = %+v, %v, want bob", r, err)
	}
}

// TestPlantedHomeOfTwoSubnets verifies that the owners of both subnets of a host agree on its home
// although the record names a third one.
func TestPlantedHomeOfTwoSubnets(t *testing.T) {
	t.Parallel()
	strange := func(peer.ID) Word { return Strange }
	m := plantHome(t, "a.test", strange, addrA, addrC)
	third := join(t, carol, m.dht, nil, func(c *Config) { c.Confirm = wordFunc(strange) })
	third.claim(store.SubnetOf(addrC))
	third.names["a.test"] = []netip.Addr{addrA, addrC}
	third.plantPending("https://a.test/")
	// Others have sent it to either, with the address there that they have seen.
	r, err := m.resolver.Resolve(t.Context(), "a.test", addrA)
	if err != nil || r.Kind != outbox.Foreign || r.Owner != carol.id {
		t.Errorf("Resolve() = %+v, %v, want carol, who has the lowest address", r, err)
	}
	r, err = third.resolver.Resolve(t.Context(), "a.test", addrC)
	if err != nil || r.Kind != outbox.Own {
		t.Errorf("Resolve() of carol = %+v, %v, want her own", r, err)
	}
}
