package estimate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// TestAllowance verifies how many requests are accepted of those that come within a second.
func TestAllowance(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	one := func(int) netip.Prefix { return subnet }
	many := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	same := func(int) peer.ID { return "a" }
	each := func(i int) peer.ID { return peer.ID(fmt.Sprint(i)) }
	for _, test := range []struct {
		name   string
		from   func(i int) peer.ID
		old    bool
		subnet func(i int) netip.Prefix
		want   int
	}{
		{"one peer, one subnet", same, true, one, maxPerDay},
		{"many peers, one subnet", each, true, one, maxPerDayAll},
		{"one peer, many subnets", same, true, many, 3000},
		{"one new peer, many subnets", same, false, many, newcomerRate.Burst},
		{"many new peers, many subnets", each, false, many, newcomerRate.Burst},
	} {
		var a allowance
		got := 0
		for i := range 3000 {
			if a.take(test.from(i), test.old, test.subnet(i), now) == nil {
				got++
			}
		}
		if got != test.want {
			t.Errorf("%s: %d requests accepted, want %d", test.name, got, test.want)
		}
		if !test.old && a.take("b", true, subnet, now) != nil {
			t.Errorf("%s: an old peer was refused", test.name)
		}
		tomorrow := now.Add(12 * time.Hour)
		if err := a.take(test.from(0), test.old, test.subnet(0), tomorrow); err != nil {
			t.Errorf("%s: the next day: %v", test.name, err)
		}
	}
}

// TestAllowanceIsBounded verifies that subnets that are no longer requested take no memory.
func TestAllowanceIsBounded(t *testing.T) {
	var a allowance
	now := time.Now()
	for i := range 2 * subnetsCounted {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 0}), 24)
		if err := a.take("a", true, p, now); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.subnets.Len(); n != subnetsCounted {
		t.Errorf("%d subnets are counted, want %d", n, subnetsCounted)
	}
}

// TestNewcomersAreRefused verifies that the service applies the allowance, and that a peer that
// was met long ago is none of the newcomers.
func TestNewcomersAreRefused(t *testing.T) {
	owner, est := two(t, func(context.Context, store.FetchRequest) (store.FetchReport, error) {
		return store.FetchReport{Outcome: store.OutcomeOK}, nil
	})
	now := time.Now().Add(time.Hour) // so that nothing becomes free meanwhile
	for est.allowance.newcomers.Allow(newcomerRate, "", now) {
	}
	_, err := owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if !errors.Is(err, ErrNotSent) || !strings.Contains(err.Error(), "new peers") {
		t.Errorf("Fetch of a new peer: %v, want ErrNotSent with \"new peers\"", err)
	}
	long := time.Now().Add(-time.Hour) // as wire.Meet an hour ago
	if err := est.Host.Peerstore().Put(owner.Host.ID(), "peerd/met", long); err != nil {
		t.Fatal(err)
	}
	_, err = owner.Fetch(t.Context(), est.Host.ID(), sealedBy(owner), good)
	if err != nil {
		t.Errorf("Fetch of an old peer: %v", err)
	}
}
