package shadow

import (
	"testing"
)

func TestFollow(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	same(t, a.db, b.db, subnet)
	for i := range 10 {
		crawl(t, a.db, "a.test", 30)
		push(t, a.db, "c.test", 10*i, 10*i+10)
		flush(t, a, subnet, hb.ID())
		same(t, a.db, b.db, subnet)
	}
	h, ok := b.Copy(subnet)
	if !ok || !h.Complete || !h.Live || h.Owner != ha.ID() || h.Epoch != 1 || string(h.Lease) != "lease" || h.Heard.IsZero() {
		t.Errorf("held is %+v", h)
	}
	if f := a.State(subnet, hb.ID()); !f.Synced || f.Err != nil || f.Pos != h.Pos {
		t.Errorf("the follower is %+v", f)
	}
	pos, err := b.Promote(subnet)
	if err != nil || pos != h.Pos || len(b.Held()) != 0 {
		t.Errorf("promoted at %v, %v; held %v", pos, err, b.Held())
	}
}
