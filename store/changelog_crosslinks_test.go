package store

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// crossWorld is an owner of two subnets that link to each other, and a replica.
type crossWorld struct {
	logWorld
	known []crossFound
}

// crossFound is a URL that was found on a page of another subnet.
type crossFound struct {
	from netip.Prefix
	seq  uint64 // of the record that contains it
	url  URL
}

var crossHosts = map[netip.Prefix]string{netA: "a", netB: "b"}

// Link finds a URL of the other subnet on a page.
func (x *crossWorld) Link(t *rapid.T) {
	p := x.drawNet(t)
	other := netA
	if p == netA {
		other = netB
	}
	u := page(crossHosts[other], rapid.IntRange(0, 200).Draw(t, "url"))
	pending := rapid.Bool().Draw(t, "pending first")
	fresh := false
	x.update(t, func(tx *Tx) (err error) {
		if pending {
			if _, err := tx.AddPending(Pending{URL: u, From: crossHosts[p]}); err != nil {
				return err
			}
		}
		return nil
	})
	x.update(t, func(tx *Tx) (err error) {
		if fresh, err = tx.Push(crossHosts[other], Entry{URL: u, From: crossHosts[p]},
			0); err == nil && pending {
			err = tx.RemovePending(u)
		}
		return err
	})
	if fresh {
		head, _, _ := x.owner.LogHead(p)
		x.known = append(x.known, crossFound{p, head.Seq, u})
	}
}

// Check checks that the replica could replace the owner now.
func (x *crossWorld) Check(t *rapid.T) {
	x.checkLogStates(t)
	if !x.followers[netA].done || !x.followers[netB].done {
		return
	}
	err := x.replica.View(func(tx *Tx) error {
		for _, k := range x.known {
			if x.followers[k.from].seq < k.seq {
				continue // it does not know the page either
			}
			seen, err := tx.Seen(k.url)
			if err != nil {
				return err
			}
			outlink, err := tx.has(outlinkKey(spaceReplicaOutlink, k.from, k.url.Digest()))
			if err != nil {
				return err
			}
			if !seen && !outlink {
				t.Fatalf("replica does not know %s, found in %v", k.url, k.from)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkLogStates compares the owner's log states in memory with those on disk.
func (x *crossWorld) checkLogStates(t *rapid.T) {
	err := x.owner.View(func(tx *Tx) error {
		for p := range crossHosts {
			disk, err := tx.logState(p)
			if m, _ := x.owner.logs.get(p); err != nil || m != disk {
				t.Fatalf("state of the log of %v is %+v in memory, %+v on disk, %v", p, m, disk,
					err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No URL is lost with the owner, although the replica reads the logs of two subnets that
// link to each other independently.
func TestCrossLinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		x := &crossWorld{logWorld: logWorld{owner: tiny(t), replica: tiny(t),
			followers: map[netip.Prefix]*follower{}}}
		defer x.close()
		for p, name := range crossHosts {
			x.update(rt, func(tx *Tx) error { tx.PutHost(Host{Name: name, Subnet: p}); return nil })
			x.follow(rt, p)
		}
		act := rapid.StateMachineActions(x)
		for _, name := range []string{"Change", "DropHost", "Reapply", "Restart"} {
			delete(act, name)
		}
		rt.Repeat(act)
		x.CatchUp(rt)
		for p := range crossHosts { // trimming releases all of them
			if err := x.owner.TrimLog(p, 1<<40); err != nil {
				rt.Fatal(err)
			}
		}
		err := x.owner.View(func(tx *Tx) error {
			for _, s := range []byte{spaceCrossLink, spaceOutlinkIndex} {
				if keys, err := tx.keysToClear([]byte{s}, "", "", nil, 1); err != nil ||
					len(keys) > 0 {
					rt.Fatalf("found keys %q, %v, want none", keys, err)
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
