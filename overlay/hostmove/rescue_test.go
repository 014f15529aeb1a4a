package hostmove

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/store"
)

// Who receives a host takes it from its owner only, and only if it is to be here.
func TestWelcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		a, b := join(t, folk[0], dht, nil, nil), join(t, folk[1], dht, nil, nil)
		a.settle(1)
		b.claim(newNet)
		sealed, _ := a.own.Lease(oldNet)
		value, err := a.cfg.Homes.Draft(t.Context(), mover, oldNet, newNet, sealed)
		if err != nil {
			t.Fatal(err)
		}
		r, err := home.Open(value)
		if err != nil {
			t.Fatal(err)
		}
		successor := b.Receiver()
		if _, _, _, err := successor.Accept(t.Context(), folk[2].id, r); err == nil {
			t.Error("from a stranger")
		}
		wrong := r
		wrong.Subnet = oldNet
		if _, _, _, err := successor.Accept(t.Context(), folk[0].id, wrong); err == nil {
			t.Error("into a subnet that is not ours")
		}
		_, merge, leave, err := successor.Accept(t.Context(), folk[0].id, r)
		if err != nil || merge != hosttransfer.NoMerge || b.own.entered(newNet) != 1 {
			t.Fatal(merge, err)
		}
		if _, _, _, err := successor.Accept(t.Context(), folk[0].id, r); err == nil {
			t.Error("twice at once")
		}
		if !b.InTransit(mover) {
			t.Error("not on its way")
		}
		host := store.Host{Name: mover, Subnet: newNet, Addr: newAddr}
		if err := successor.Arrived(t.Context(), host, value, time.Now()); err != nil {
			t.Fatal(err)
		}
		leave()
		if p, _ := b.f.in(mover); p != newNet || b.InTransit(mover) || b.own.entered(newNet) != 0 {
			t.Errorf("in %v", p)
		}
		if now := a.home(mover); now.Epoch != 2 {
			t.Errorf("home %+v", now)
		}
		// The answer was lost: it is offered again, perhaps with a later record of the same move.
		again := r
		again.Issued = again.Issued.Add(time.Minute)
		for _, c := range []struct {
			r    home.Record
			done bool
		}{{r, true}, {again, true}, {home.Record{Host: mover, Subnet: newNet, From: oldNet,
			By: folk[0].id, Epoch: 3}, false}} {
			done, merge, leave, err := successor.Accept(t.Context(), folk[0].id, c.r)
			if err != nil || done != c.done || !done && merge != hosttransfer.MergeURLs {
				t.Errorf("second Accept of epoch %d: done %v, merge %v, %v", c.r.Epoch, done, merge,
					err)
				continue
			}
			leave()
			if n := b.own.entered(newNet); n != 0 {
				t.Errorf("the subnet is entered %d times", n)
			}
		}
	})
}

// The owner of the new subnet fetches a host out of one with an owner that has been silent for
// long. When that is back, what it has seen is taken from it, and from no other peer.
func TestRescue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dht := newDHT()
		m := join(t, folk[0], dht, nil, nil)
		end := time.Now().Add(-home.Silence - time.Minute)
		sealed, err := lease.SealLease(lease.Lease{Subnet: oldNet, Owner: folk[1].id, Epoch: 1,
			Issued: end.Add(-time.Minute), Expires: end}, folk[1].key)
		if err != nil {
			t.Fatal(err)
		}
		first, err := home.Seal(home.Record{Host: mover, Subnet: oldNet, By: folk[1].id,
			Issued: end, Epoch: 1}, folk[1].key)
		if err != nil {
			t.Fatal(err)
		}
		dht.Plant(home.Key(mover), first)
		m.claim(newNet)
		m.say(mover, newAddr)
		m.run()
		m.Lost(mover, oldNet, sealed)
		wait(5 * time.Minute)
		if r := m.home(mover); r.Epoch != 1 {
			t.Errorf("moved too early: %+v", r)
		}
		wait(10 * time.Minute)
		r := m.home(mover)
		if r.Epoch != 2 || r.Subnet != newNet || m.InTransit(mover) {
			t.Fatalf("home %+v", r)
		}
		m.f.AdoptHost(store.Host{Name: mover, Subnet: newNet, Addr: newAddr}, time.Now())
		accept := func(from peer.ID, r home.Record) (hosttransfer.Merge, error) {
			_, merge, leave, err := m.Receiver().Accept(t.Context(), from, r)
			if err == nil {
				leave()
			}
			return merge, err
		}
		theirs := r
		theirs.By, theirs.Rescue = folk[1].id, false // who had not heard of the rescue
		// Any member can sign a record that brings a host here.
		planted := home.Record{Host: mover, Subnet: newNet, By: folk[2].id, Epoch: 3,
			From: netip.MustParsePrefix("203.0.114.0/24")}
		if merge, err := accept(folk[2].id, planted); merge != hosttransfer.MergeURLs {
			t.Errorf("from a stranger: %v, %v, want %v", merge, err, hosttransfer.MergeURLs)
		}
		planted.From = oldNet
		if merge, err := accept(folk[2].id, planted); merge != hosttransfer.MergeURLs {
			t.Errorf("from a stranger: %v, %v, want %v", merge, err, hosttransfer.MergeURLs)
		}
		if merge, err := accept(folk[1].id, theirs); merge != hosttransfer.MergeURLs {
			t.Errorf("from one that owns nothing: %v, %v, want %v", merge, err,
				hosttransfer.MergeURLs)
		}
		sealed, err = lease.SealLease(lease.Lease{Subnet: oldNet, Owner: folk[1].id, Epoch: 1,
			Issued: time.Now(), Expires: time.Now().Add(time.Minute)}, folk[1].key)
		if err != nil {
			t.Fatal(err)
		}
		dht.Plant(lease.Key(oldNet), sealed)
		for _, offered := range []home.Record{r, theirs} {
			if merge, err := accept(folk[1].id, offered); merge != hosttransfer.MergeAll {
				t.Errorf("from the owner that is back: %v, %v, want %v", merge, err,
					hosttransfer.MergeAll)
			}
		}
		if merge, err := accept(folk[2].id, planted); merge != hosttransfer.MergeURLs {
			t.Errorf("from a stranger: %v, %v, want %v", merge, err, hosttransfer.MergeURLs)
		}
	})
}
