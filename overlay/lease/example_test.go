package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/overlay/record/recordtest"
)

// newRegistry returns the Registry of a peer over a DHT in memory.
func newRegistry(seed int64, dht *recordtest.DHT) (*lease.Registry, lease.Config) {
	cfg := lease.DefaultConfig()
	cfg.Key, cfg.Self = overlaytest.Identity(seed)
	cfg.Values = dht.Peer()
	cfg.Settle = 10 * time.Millisecond // live networks need the default
	r, err := lease.NewRegistry(cfg)
	if err != nil {
		panic(err)
	}
	return r, cfg
}

var exampleSubnet = netip.MustParsePrefix("192.0.2.0/24")

// The first claim of a subnet makes a peer its owner. A later one fails and names the
// owner.
func ExampleRegistry_Claim() {
	ctx := context.Background()
	dht := recordtest.New(lease.Validator{}, 3)
	alice, aliceCfg := newRegistry(1, dht)
	bob, _ := newRegistry(2, dht)

	l, _, err := alice.Claim(ctx, exampleSubnet)
	fmt.Println(l.Subnet, "epoch", l.Epoch, err)

	_, _, err = bob.Claim(ctx, exampleSubnet)
	var beaten *lease.BeatenError
	if errors.As(err, &beaten) {
		fmt.Println("owned by alice:", beaten.By.Owner == aliceCfg.Self)
	}
	// Output:
	// 192.0.2.0/24 epoch 1 <nil>
	// owned by alice: true
}

// An owner transfers a subnet by signing a grant for exactly one successor and epoch.
func ExampleRegistry_Adopt() {
	ctx := context.Background()
	dht := recordtest.New(lease.Validator{}, 3)
	alice, aliceCfg := newRegistry(1, dht)
	bob, bobCfg := newRegistry(2, dht)

	l, _, err := alice.Claim(ctx, exampleSubnet)
	if err != nil {
		fmt.Println(err)
		return
	}
	grant, err := l.GrantTo(bobCfg.Self, time.Now(), aliceCfg.Key)
	if err != nil {
		fmt.Println(err)
		return
	}
	l, _, err = bob.Adopt(ctx, l, grant, nil)
	fmt.Println("epoch", l.Epoch, "owned by bob:", l.Owner == bobCfg.Self, err)

	l, _, err = alice.Refresh(ctx, exampleSubnet)
	fmt.Println("alice reads epoch", l.Epoch, err)
	// Output:
	// epoch 2 owned by bob: true <nil>
	// alice reads epoch 2 <nil>
}

// Replicas and readers merge conflicting leases by a total order.
func ExampleBetter() {
	_, owner := overlaytest.Identity(1)
	old := lease.Lease{Subnet: exampleSubnet, Owner: owner, Epoch: 1}
	_, owner = overlaytest.Identity(2)
	next := lease.Lease{Subnet: exampleSubnet, Owner: owner, Epoch: 2}
	fmt.Println(lease.Better(next, old) > 0, lease.Better(old, next) < 0)
	// Output: true true
}

// A majority of the witnesses and the owner together may reassign its subnets; the owner
// keeps its quorum lease while so many hear it that the others are too few.
func ExampleWitnessSet() {
	var set lease.WitnessSet
	for seed := range int64(4) {
		_, id := overlaytest.Identity(seed + 1)
		set.Members = append(set.Members, id)
	}
	fmt.Println("votes to take over:", set.TakeoverQuorum())
	fmt.Println("witnesses to keep:", set.HoldQuorum())
	// Output:
	// votes to take over: 3
	// witnesses to keep: 2
}
