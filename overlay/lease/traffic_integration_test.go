//go:build integration

package lease_test

import (
	"context"
	"flag"
	"net/netip"
	"testing"
	"time"

	"peerd/coords"
	"peerd/overlay/lease"
)

var members = flag.Int("members", 8, "peers among which the traffic of leases is measured")

// What leases cost over the real DHT: everything that its protocol and that of records send between
// any two peers, look-ups and answers too. Beneath that are only libp2p's multiplexer and
// encryption, and TCP.
func TestTrafficOverTheDHT(t *testing.T) {
	subnets := 4
	if *members > 8 {
		subnets = 48
	}
	ms := meet(t, *members, 300*time.Millisecond)
	sent := func() (sum int64) {
		for _, m := range ms {
			all, names := m.net.Traffic(), m.net.Names
			sum += all[names.DHT()].Sent + all[names.Record()].Sent
		}
		return sum
	}
	leases := make([]lease.Lease, subnets)
	owner := func(i int) member { return ms[i%len(ms)] }
	quiet(t, sent)

	measure := func(what string, n int, do func(ctx context.Context, i int) error) float64 {
		before := sent()
		for i := range n {
			if err := do(t.Context(), i); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		each := float64(sent()-before) / float64(n)
		t.Logf("%-32s %6.1f kB", what, each/1e3)
		return each
	}
	t.Logf("%d peers, 12 replicas", *members)
	proxy := &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{12, -7, 3}, Height: 2, Error: 0.2},
		Delay: 40, Scale: 2, PerKB: 0.1, Error: 0.1, Samples: 8,
	}
	claimed := measure("claim, settled", subnets, func(ctx context.Context, i int) (err error) {
		leases[i], _, err = owner(i).leases.Claim(ctx,
			netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i), 0}), 24))
		return err
	})
	read := measure("look-up by another", subnets, func(ctx context.Context, i int) error {
		_, _, err := owner(i+3).leases.Refresh(ctx, leases[i].Subnet)
		return err
	})
	renew := func(ctx context.Context, i int) (err error) {
		leases[i].Proxy = proxy
		leases[i], _, err = owner(i).leases.Renew(ctx, leases[i])
		return err
	}
	renewed := measure("renewal of a claim", subnets, renew)
	handed := measure("handed over", subnets, func(ctx context.Context, i int) error {
		old, l := owner(i), leases[i]
		successor := owner(i + 1)
		grant, err := l.GrantTo(successor.net.Self(), time.Now(), old.key)
		if err != nil {
			return err
		}
		_, _, err = successor.leases.Adopt(ctx, l, grant, proxy)
		return err
	})
	perHour := float64(time.Hour) / float64(lease.DefaultTTL/3)
	t.Logf("an hour, renewed each %v: %.1f kB a subnet, %.0f kB/s for 50,000 of them",
		lease.DefaultTTL/3, renewed*perHour/1e3, renewed*perHour*50_000/3600/1e3)
	if renewed*perHour > 15e3 {
		t.Errorf("%.1f kB an hour and subnet", renewed*perHour/1e3)
	}
	if min(claimed, read, renewed, handed) <= 0 {
		t.Error("something is not counted")
	}
}

// quiet returns when the DHT has filled its tables and says nothing any more.
func quiet(t *testing.T, sent func() int64) {
	t.Helper()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	late := time.After(10 * time.Minute)
	for last := int64(-1); last != sent(); {
		last = sent()
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the DHT does not come to rest")
		}
	}
}
