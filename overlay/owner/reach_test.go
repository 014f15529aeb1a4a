package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"peerd/overlay/outbox"
	"peerd/store"
)

// connections is a Config.Reach with some dead addresses.
type connections struct {
	dead  map[netip.Addr]bool
	tried [][]netip.Addr
	urls  []store.URL
}

func (c *connections) Reach(
	_ context.Context, u store.URL, addrs []netip.Addr, _ time.Duration,
) (netip.Addr, bool) {
	c.tried, c.urls = append(c.tried, addrs), append(c.urls, u)
	for _, a := range addrs {
		if !c.dead[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// plantPending adds a pending URL.
func (m *member) plantPending(u store.URL) {
	m.t.Helper()
	err := m.cfg.DB.Update(func(tx *store.Tx) error {
		_, err := tx.AddPending(store.Pending{URL: u})
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// TestHomeIsReachable verifies that a host with addresses in several subnets gets its home where it
// answers, and that only such a host is connected to.
func TestHomeIsReachable(t *testing.T) {
	t.Parallel()
	addrA2 := addrA.Next()
	for name, tc := range map[string]struct {
		addrs, dead []netip.Addr
		known       bool // the host has a home
		want        netip.Addr
		tries       int
	}{
		"one subnet":  {[]netip.Addr{addrA, addrA2}, []netip.Addr{addrA}, false, addrA, 0},
		"both alive":  {[]netip.Addr{addrA, addrB}, nil, false, addrA, 1},
		"first dead":  {[]netip.Addr{addrA, addrB}, []netip.Addr{addrA}, false, addrB, 1},
		"second dead": {[]netip.Addr{addrA, addrB}, []netip.Addr{addrB}, false, addrA, 1},
		"one of first alive": {[]netip.Addr{addrA, addrA2, addrB}, []netip.Addr{addrA}, false,
			addrA, 1},
		"all dead": {[]netip.Addr{addrA, addrB}, []netip.Addr{addrA, addrB}, false,
			addrA, 1},
		"known home": {[]netip.Addr{addrA, addrB}, []netip.Addr{addrA}, true, addrA, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := &connections{dead: map[netip.Addr]bool{}}
			for _, a := range tc.dead {
				c.dead[a] = true
			}
			dht := newDHT()
			m := join(t, alice, dht, nil, func(cfg *Config) {
				cfg.Reacher, cfg.Gap = c, time.Hour
			})
			m.claim(subnetA)
			m.claim(subnetB)
			m.names["a.test"] = tc.addrs
			if tc.known {
				other := join(t, bob, dht, nil, nil)
				if _, err := other.cfg.Homes.Settle(t.Context(), "a.test", subnetA); err != nil {
					t.Fatal(err)
				}
			}
			m.plantPending("https://a.test:8443/x")
			r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
			if err != nil || r.Kind != outbox.Own || r.Addr != tc.want {
				t.Errorf("Resolve() = %+v, %v, want our host at %v", r, err, tc.want)
			}
			if p := m.frontier.hosts["a.test"]; p != store.SubnetOf(tc.want) {
				t.Errorf("the frontier has it in %v, want %v", p, store.SubnetOf(tc.want))
			}
			// Another owner may have connected to a host with a home.
			several := store.SubnetOf(tc.addrs[len(tc.addrs)-1]) != subnetA
			if wait := time.Until(m.frontier.askAt["a.test"]); (wait > 0) != several ||
				wait > m.cfg.Gap {
				t.Errorf("the frontier waits %v, want at most %v, and 0 only for one subnet", wait,
					m.cfg.Gap)
			}
			if len(c.tried) != tc.tries || tc.tries > 0 && c.urls[0] != "https://a.test:8443/x" {
				t.Errorf("tried %v for %v, want %d tries", c.tried, c.urls, tc.tries)
			}
		})
	}
}

// A peer without the quorum lease connects to no server to choose a home: the subnet may have
// another owner by now, who has just fetched from it.
func TestNoHomeIsChosenWithoutQuorumLease(t *testing.T) {
	t.Parallel()
	c := &connections{}
	m, _, w := guardedBy(t, bob, nil, nil)
	m.Manager.cfg.Reacher = c
	m.claim(subnetA)
	m.names["a.test"] = []netip.Addr{addrA, addrB}
	m.plantPending("https://a.test/")
	resolve := func() (outbox.Resolution, error) {
		return m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
	}
	w.right = false
	if r, err := resolve(); !errors.Is(err, errMayNotConnect) || len(c.tried) > 0 {
		t.Errorf("Resolve() = %+v, %v after %d tries, want errMayNotConnect", r, err, len(c.tried))
	}
	w.right = true
	if r, err := resolve(); err != nil || r.Kind != outbox.Own || len(c.tried) != 1 {
		t.Errorf("Resolve() = %+v, %v after %d tries, want our host", r, err, len(c.tried))
	}
	w.right = false
	if r, err := resolve(); err != nil || r.Kind != outbox.Own || len(c.tried) != 1 {
		t.Errorf("with a home: Resolve() = %+v, %v after %d tries", r, err, len(c.tried))
	}
}

// TestSubnetStaysWhileHomeIsChosen verifies that a subnet does not leave while a host in it is
// connected to: its next owner would connect to the host again at once.
func TestSubnetStaysWhileHomeIsChosen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m *member
		tried := 0
		reach := func(
			_ context.Context, _ store.URL, addrs []netip.Addr, _ time.Duration,
		) (netip.Addr, bool) {
			tried++
			free := make(chan struct{})
			go func() {
				if m.departures.awaitExits(t.Context(), m.subnets[subnetA]) == nil {
					close(free)
				}
			}()
			synctest.Wait()
			select {
			case <-free:
				t.Error("the subnet may leave")
			default:
			}
			return addrs[0], true
		}
		m = join(t, alice, newDHT(), nil, func(cfg *Config) { cfg.Reacher = reachFunc(reach) })
		m.claim(subnetA)
		m.names["a.test"] = []netip.Addr{addrA, addrB}
		m.plantPending("https://a.test/")
		r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
		if err != nil || r.Kind != outbox.Own || tried != 1 {
			t.Errorf("Resolve() = %+v, %v after %d tries, want our host after one", r, err, tried)
		}
	})
}

// TestHomeOfAnotherOwner verifies that URLs go to the owner of the subnet in which a host answers.
func TestHomeOfAnotherOwner(t *testing.T) {
	t.Parallel()
	c := &connections{dead: map[netip.Addr]bool{addrA: true}}
	dht := newDHT()
	m := join(t, alice, dht, nil, func(cfg *Config) { cfg.Reacher = c })
	other := join(t, bob, dht, nil, nil)
	m.claim(subnetA)
	other.claim(subnetB)
	for _, x := range []*member{m, other} {
		x.names["a.test"] = []netip.Addr{addrA, addrB}
	}
	m.plantPending("https://a.test/")
	if r, err := m.resolver.Resolve(t.Context(), "a.test", netip.Addr{}); err != nil ||
		r.Kind != outbox.Foreign || r.Owner != bob.id {
		t.Errorf("Resolve() = %+v, %v, want bob", r, err)
	}
	if r, err := other.resolver.Resolve(t.Context(), "a.test", addrB); err != nil ||
		r.Kind != outbox.Own ||
		r.Addr != addrB {
		t.Errorf("Resolve() of the owner = %+v, %v, want its own at %v", r, err, addrB)
	}
}

func TestAlternate(t *testing.T) {
	t.Parallel()
	var all []netip.Addr
	for _, s := range []string{"192.0.2.1", "192.0.2.2", "198.51.100.1", "203.0.113.1",
		"2001:db8:1::1", "2001:db8:2::1", "192.0.2.1"} {
		all = append(all, netip.MustParseAddr(s))
	}
	got := alternate(netip.MustParsePrefix("192.0.2.0/24"), all)
	want := []netip.Addr{all[0], all[1], all[4], all[2], all[5], all[3]}
	if !slices.Equal(got, want) {
		t.Errorf("alternate() = %v, want %v", got, want)
	}
}
