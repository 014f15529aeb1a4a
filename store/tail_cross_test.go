package store

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// crossWorld is an owner whose subnets link to each other, and a replica.
type crossWorld struct {
	tailWorld
	known []crossed
}

// crossed is a URL that became known because of a page of another subnet.
type crossed struct {
	from netip.Prefix
	seq  uint64 // of the record that says so
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
	aside := rapid.Bool().Draw(t, "put aside first")
	fresh := false
	x.update(t, func(tx *Tx) (err error) {
		if aside {
			if _, err := tx.Defer(Pending{URL: u, From: crossHosts[p]}); err != nil {
				return err
			}
		}
		return nil
	})
	x.update(t, func(tx *Tx) (err error) {
		if fresh, err = tx.Push(crossHosts[other], Entry{URL: u, From: crossHosts[p]}, 0); err == nil && aside {
			err = tx.Undefer(u)
		}
		return err
	})
	if fresh {
		head, _, _ := x.owner.TailHead(p)
		x.known = append(x.known, crossed{p, head.Seq, u})
	}
}

// Check looks at the replica as if the owner were lost now.
func (x *crossWorld) Check(t *rapid.T) {
	x.checkBook(t)
	if !x.fol[netA].done || !x.fol[netB].done {
		return
	}
	err := x.replica.View(func(tx *Tx) error {
		for _, k := range x.known {
			if x.fol[k.from].seq < k.seq {
				continue // it does not know of the page either
			}
			seen, err := tx.Seen(k.url)
			if err != nil {
				return err
			}
			aside, err := tx.has(outlinkKey(spaceOutlink, k.from, k.url.Digest()))
			if err != nil {
				return err
			}
			if !seen && !aside {
				t.Fatalf("%s, found in %v, is lost", k.url, k.from)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkBook compares what the owner remembers of its logs with its disk.
func (x *crossWorld) checkBook(t *rapid.T) {
	err := x.owner.View(func(tx *Tx) error {
		for p := range crossHosts {
			disk, err := tx.tailMeta(p)
			if m, _ := x.owner.tail.get(p); err != nil || m != disk {
				t.Fatalf("%v: %+v in memory, %+v on disk, %v", p, m, disk, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No URL is lost with the owner, though the logs of two subnets that link to
// each other travel at different paces.
func TestCrossLinks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := &crossWorld{tailWorld: tailWorld{owner: tiny(t), replica: tiny(t), fol: map[netip.Prefix]*follower{}}}
		defer x.close()
		for p, name := range crossHosts {
			x.update(rt, func(tx *Tx) error { tx.PutHost(Host{Name: name, Subnet: p}); return nil })
			x.follow(rt, p)
		}
		act := rapid.StateMachineActions(x)
		for _, name := range []string{"Change", "DropHost", "Again", "Anew"} {
			delete(act, name)
		}
		rt.Repeat(act)
		x.Catch(rt)
		for p := range crossHosts { // and none is kept for ever
			if err := x.owner.TrimTail(p, 1<<40); err != nil {
				rt.Fatal(err)
			}
		}
		err := x.owner.View(func(tx *Tx) error {
			for _, s := range []byte{spaceCross, spaceFrom} {
				if keys, err := tx.staleKeys([]byte{s}, "", "", nil, 1); err != nil || len(keys) > 0 {
					rt.Fatalf("left: %q, %v", keys, err)
				}
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
