//go:build integration

package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
)

// member is a peer on loopback with its registries over the real DHT.
type member struct {
	net    *overlay.Net
	key    crypto.PrivKey
	leases *lease.Registry
	homes  *home.Registry
}

func join(t *testing.T, seed int64, settle time.Duration, boot ...peer.AddrInfo) member {
	t.Helper()
	key, _ := overlaytest.Identity(seed)
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network, cfg.Bootstrap = key, "lease-test", boot
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Validators = map[string]record.Validator{lease.Namespace: lease.Validator{},
		home.Namespace: home.Validator{}}
	n, err := overlay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ran, n.Close()); err != nil {
			t.Error(err)
		}
	})
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Settle = n.Self(), key, n.Values(), settle
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Settle = n.Self(), key, n.Values(), settle
	leases, err := lease.NewRegistry(lc)
	if err != nil {
		t.Fatal(err)
	}
	homes, err := home.NewRegistry(hc)
	if err != nil {
		t.Fatal(err)
	}
	return member{n, key, leases, homes}
}

// meet starts n members and returns when their routing tables are full, or nearly.
func meet(t *testing.T, n int, settle time.Duration) []member {
	t.Helper()
	ms := []member{join(t, 1, settle)}
	for i := 1; i < n; i++ {
		ms = append(ms, join(t, int64(i+1), settle, peer.AddrInfo{ID: ms[0].net.Self(),
			Addrs: ms[0].net.Host.Addrs()}))
	}
	overlaytest.Until(t, "members find each other", func() bool {
		for _, m := range ms {
			if m.net.DHT.RoutingTable().Size() < min(n-1, 16) {
				m.net.DHT.RefreshRoutingTable()
				return false
			}
		}
		return true
	})
	return ms
}

// settleTime is Config.Settle in TestOverTheDHT. One of several wins only if delays are well below
// it, so that a claim takes little longer.
const settleTime = 2 * time.Second

// prompt calls do for all members at once, and reports whether each call took little longer than
// settleTime.
func prompt(ms []member, do func(i int, m member)) bool {
	begin := time.Now()
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() { do(i, m) })
	}
	wg.Wait()
	return time.Since(begin) < settleTime*3/2
}

func TestOverTheDHT(t *testing.T) {
	ms := meet(t, 4, settleTime)
	var wg sync.WaitGroup
	for round := range 8 {
		wg.Go(func() {
			subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(round), 0}), 24)
			winner := claimAll(t, ms, subnet)
			if winner >= 0 {
				handOver(t, ms, subnet, winner, (winner+1)%len(ms))
			}
		})
		wg.Go(func() { settleAll(t, ms, fmt.Sprintf("host-%d.example", round)) })
	}
	wg.Wait()
}

// claimAll lets all members claim at once and returns the winner.
func claimAll(t *testing.T, ms []member, subnet netip.Prefix) int {
	errs := make([]error, len(ms))
	soon := prompt(ms, func(i int, m member) {
		_, _, errs[i] = m.leases.Claim(t.Context(), subnet)
	})
	winner := -1
	for i, err := range errs {
		var b *lease.BeatenError
		switch {
		case err == nil && winner >= 0 && !soon:
			t.Logf("%v: both %d and %d won, on a busy machine", subnet, winner, i)
			return -1
		case err == nil && winner >= 0:
			t.Errorf("%v: both %d and %d won", subnet, winner, i)
		case err == nil:
			winner = i
		case !errors.As(err, &b):
			t.Errorf("%v: %v", subnet, err)
		}
	}
	if winner < 0 {
		t.Errorf("%v: no member won", subnet)
	}
	return winner
}

// handOver moves subnet from one member to another and looks it up everywhere.
func handOver(t *testing.T, ms []member, subnet netip.Prefix, from, to int) {
	old, _, err := ms[from].leases.Lookup(t.Context(), subnet)
	if err != nil {
		t.Error(err)
		return
	}
	grant, err := old.GrantTo(ms[to].net.Self(), time.Now(), ms[from].key)
	if err != nil {
		t.Error(err)
		return
	}
	if _, _, err := ms[to].leases.Adopt(t.Context(), old, grant, nil); err != nil {
		t.Error(err)
	}
	var b *lease.BeatenError
	if _, _, err := ms[from].leases.Renew(t.Context(), old); !errors.As(err, &b) {
		t.Errorf("%v: the old owner renews: %v", subnet, err)
	}
	for i, m := range ms {
		m.leases.Forget(subnet)
		l, _, err := m.leases.Lookup(t.Context(), subnet)
		if i == to && errors.Is(err, lease.ErrUnowned) { // it forgot that it won
			l, _, err = m.leases.Claim(t.Context(), subnet)
		}
		if err != nil || l.Owner != ms[to].net.Self() || l.Epoch != 2 {
			t.Errorf("%v: member %d finds %v at epoch %d, %v", subnet, i, l.Owner, l.Epoch, err)
		}
	}
}

// settleAll lets each member settle one host on another subnet.
func settleAll(t *testing.T, ms []member, host string) {
	got := make([]netip.Prefix, len(ms))
	soon := prompt(ms, func(i int, m member) {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)
		var err error
		if got[i], err = m.homes.Settle(t.Context(), host, p); err != nil {
			t.Error(err)
		}
	})
	for i, p := range got {
		if p != got[0] && soon {
			t.Errorf("%s: member %d settled on %v, member 0 on %v", host, i, p, got[0])
		}
	}
}
