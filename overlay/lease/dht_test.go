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

func join(t *testing.T, seed int64, boot ...peer.AddrInfo) member {
	t.Helper()
	key, _ := overlaytest.Identity(seed)
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network, cfg.Bootstrap = key, "lease-test", boot
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	cfg.Validators = map[string]record.Validator{lease.Namespace: lease.Validator{}, home.Namespace: home.Validator{}}
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
	lc.Self, lc.Key, lc.Values, lc.Settle = n.Self(), key, n.Values(), 300*time.Millisecond
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Settle = n.Self(), key, n.Values(), 300*time.Millisecond
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
func meet(t *testing.T, n int) []member {
	t.Helper()
	ms := []member{join(t, 1)}
	for i := 1; i < n; i++ {
		ms = append(ms, join(t, int64(i+1), peer.AddrInfo{ID: ms[0].net.Self(), Addrs: ms[0].net.Host.Addrs()}))
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

func TestOverTheDHT(t *testing.T) {
	ms := meet(t, 4)
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

// claimAll lets everybody claim at once and returns who won.
func claimAll(t *testing.T, ms []member, subnet netip.Prefix) int {
	errs := make([]error, len(ms))
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() { _, _, errs[i] = m.leases.Claim(t.Context(), subnet) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		var b *lease.BeatenError
		switch {
		case err == nil && winner >= 0:
			t.Errorf("%v: both %d and %d won", subnet, winner, i)
		case err == nil:
			winner = i
		case !errors.As(err, &b):
			t.Errorf("%v: %v", subnet, err)
		}
	}
	if winner < 0 {
		t.Errorf("%v: nobody won", subnet)
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
	grant, err := lease.SealGrant(lease.Grant{
		Subnet: subnet, From: old.Owner, To: ms[to].net.Self(), Epoch: old.Epoch + 1, Issued: time.Now(),
	}, ms[from].key)
	if err != nil {
		t.Error(err)
		return
	}
	if _, _, err := ms[to].leases.Adopt(t.Context(), subnet, old.Epoch+1, grant, nil); err != nil {
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

// settleAll lets everybody settle one host on another subnet.
func settleAll(t *testing.T, ms []member, host string) {
	got := make([]netip.Prefix, len(ms))
	var wg sync.WaitGroup
	for i, m := range ms {
		wg.Go(func() {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)
			var err error
			if got[i], err = m.homes.Settle(t.Context(), host, p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i, p := range got {
		if p != got[0] {
			t.Errorf("%s: member %d settled on %v, member 0 on %v", host, i, p, got[0])
		}
	}
}
