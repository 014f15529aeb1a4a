package outbox

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Receipts that deny many subnets do not cause a burst of reads.
func TestDeniedOwnersAreReadAtARate(t *testing.T) {
	t.Parallel()
	a, b := two(t)
	b.accepts = func(netip.Prefix) (bool, bool, []byte) { return false, false, nil }
	s := b.f.Serve()
	defer s.Close()
	a.f.table.cfg.RefreshRate = 1
	n := 0
	a.resolve = func(string, netip.Addr) (Resolution, error) {
		n++
		return Resolution{Kind: Foreign, Subnet: subnet(n), Addr: addr(n), Owner: b.host.ID()}, nil
	}
	reads := 0
	a.refreshOwner = func(netip.Prefix, peer.ID) (bool, error) { reads++; return false, nil }
	begin := time.Now()
	for i := range 90 {
		a.addPending(fmt.Sprintf("h%d.test", i), 1)
	}
	a.run()
	eventually(t, "three batches are denied, and an owner is read", func() (ok bool) {
		a.set(func() { ok = reads > 0 })
		return ok && b.db.Counters().BatchesReceived >= 3
	})
	a.set(func() {
		if most := 1 + int(time.Since(begin)/time.Second); reads > most {
			t.Errorf("%d reads after %v, want at most %d", reads, time.Since(begin), most)
		}
	})
}

// An owner that denies without end does not keep others from being read again.
func TestDoubtsAreBounded(t *testing.T) {
	t.Parallel()
	tab := newTestTable()
	tab.cfg.RefreshRate = 1000
	tab.add("x.test", 1, start, start)
	resolveAll(tab, start, owned("down"))
	tab.reads.suspect("down", start)
	for i := range 1000 {
		tab.reads.doubt(doubt{"liar", subnet(i), true})
		tab.reads.doubt(doubt{"liar", subnet(i), true})
	}
	tab.reads.doubt(doubt{"honest", subnet(1), true})
	now, got := start, map[peer.ID]int{}
	for range 3 {
		d, ok := tab.reads.next(tab.outboxes, now)
		if !ok {
			t.Fatal("next returned nothing")
		}
		got[d.owner]++
		now = now.Add(time.Millisecond)
	}
	if got["liar"] != 2 || got["down"] != 1 {
		t.Errorf("reads of %v, want one of the owner that does not answer", got)
	}
	for d, ok := tab.reads.next(tab.outboxes, now); ok; d, ok = tab.reads.next(tab.outboxes, now) {
		got[d.owner]++
		now = now.Add(time.Millisecond)
	}
	if got["liar"] != maxDoubtsOf || got["honest"] != 1 {
		t.Errorf("reads of %v, want %d of the liar, and one of the honest owner", got, maxDoubtsOf)
	}
}
