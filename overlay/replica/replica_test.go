package replica

import (
	"testing"
)

func TestFollow(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	checkSame(t, a.db, b.db, subnet)
	for i := range 10 {
		crawl(t, a.db, "a.test", 30)
		push(t, a.db, "c.test", 10*i, 10*i+10)
		flush(t, a, subnet, hb.ID())
		checkSame(t, a.db, b.db, subnet)
	}
	h, ok := b.Copy(subnet)
	if !ok || !h.Complete || !h.Live || h.Owner != ha.ID() || h.Epoch != 1 ||
		string(h.Lease) != "lease" || h.Heard.IsZero() {
		t.Errorf("Copy() = %+v, %v; want a live and complete one", h, ok)
	}
	if f := a.State(subnet, hb.ID()); !f.Synced || f.Err != nil || f.Pos != h.Pos {
		t.Errorf("State() = %+v, want it synced at %v", f, h.Pos)
	}
	var pos LogPos
	err := b.Promote(subnet, func(at LogPos) error { pos = at; return nil })
	if err != nil || pos != h.Pos || len(b.Copies()) != 0 {
		t.Errorf("Promote() = %v, %v with %v left; want %v, nil and none",
			pos, err, b.Copies(), h.Pos)
	}
}
