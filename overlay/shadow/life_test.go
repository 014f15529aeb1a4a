package shadow

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

func TestUnfollow(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	for _, drop := range []bool{false, true} {
		follow(t, a, subnet, b)
		flush(t, a, subnet)
		a.Unfollow(subnet, hb.ID(), drop)
		if f := a.State(subnet, hb.ID()); !errors.Is(f.Err, ErrNotFollowed) || f.Synced {
			t.Errorf("unfollowed: %+v", f)
		}
		if err := a.Flush(within(t), subnet, hb.ID()); !errors.Is(err, ErrNotFollowed) {
			t.Errorf("flushed: %v", err)
		}
		eventually(t, "it is told", func() bool { h, ok := b.Copy(subnet); return !ok || !h.Live })
		if h, ok := b.Copy(subnet); drop && ok || !drop && (!ok || !h.Complete) {
			t.Errorf("drop %v: %+v, %v", drop, h, ok)
		}
	}
	eventually(t, "wiped", func() bool {
		err := b.db.View(func(tx *store.Tx) error { _, err := tx.Subnet(subnet); return err })
		return errors.Is(err, store.ErrNotFound) && len(contents(t, b.db, subnet)) == 0
	})
	eventually(t, "the link ends", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.links) == 0
	})
	follow(t, a, subnet, b) // and is begun again
	flush(t, a, subnet)
	same(t, a.db, b.db, subnet)
}

// A replica that is away is told that it is one no more when it is back.
func TestPartingIsTold(t *testing.T) {
	ha, hb := hostPair(t)
	bdir := t.TempDir()
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, bdir), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	b.stop()
	_ = b.db.Close()
	eventually(t, "the owner notices", func() bool { return errors.Is(a.State(subnet, hb.ID()).Err, ErrLink) })
	if f := a.State(subnet, hb.ID()); f.Synced || time.Since(f.Since) > time.Minute {
		t.Errorf("%+v", f)
	}
	if err := a.Flush(within(t), subnet); !errors.Is(err, ErrLink) {
		t.Errorf("flushed: %v", err)
	}
	a.Unfollow(subnet, hb.ID(), true)
	b = join(t, hb, open(t, bdir), nil)
	eventually(t, "it is told", func() bool { return len(b.Held()) == 0 })
}

func TestRefusedAndAskedAgain(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	b.k.set(errors.New("not now"))
	follow(t, a, subnet, b)
	if err := a.Await(within(t), subnet, hb.ID()); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	b.k.set(fmt.Errorf("%w: 7", ErrStale))
	eventually(t, "asked again", func() bool { return errors.Is(a.State(subnet, hb.ID()).Err, ErrStale) })
	b.k.set(nil)
	eventually(t, "asked again", func() bool { return a.State(subnet, hb.ID()).Synced })
	b.k.mu.Lock()
	o := b.k.opens[len(b.k.opens)-1]
	b.k.mu.Unlock()
	if string(o.Lease) != "lease" || string(o.Evidence) != "evidence" || o.Subnet != subnet {
		t.Errorf("asked for %+v", o)
	}
}

// A new lease reaches the replica without a new snapshot, a panel by itself.
func TestLeaseAndPanelAreTold(t *testing.T) {
	ha, hb := hostPair(t)
	bdir := t.TempDir()
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, bdir), nil)
	own(t, a.db, subnet)
	if err := a.Follow(subnet, hb.ID(), Open{Epoch: 1, Panel: []byte("panel 1")}); err != nil {
		t.Fatal(err)
	}
	flush(t, a, subnet)
	before, _ := b.Copy(subnet)
	if string(before.Panel) != "panel 1" {
		t.Errorf("panel %q", before.Panel)
	}
	a.SetPanel([]byte("panel 2"))
	if err := a.Follow(subnet, hb.ID(), Open{Epoch: 1, Lease: []byte("lease 2")}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are told", func() bool {
		h, _ := b.Copy(subnet)
		return string(h.Panel) == "panel 2" && string(h.Lease) == "lease 2"
	})
	flush(t, a, subnet)
	if h, _ := b.Copy(subnet); h.Pos != before.Pos || !h.Complete {
		t.Errorf("it is at %+v, was at %+v", h, before)
	}
	b.stop()
	_ = b.db.Close()
	b = join(t, hb, open(t, bdir), nil)
	if h, ok := b.Copy(subnet); !ok || string(h.Panel) != "panel 2" || string(h.Lease) != "lease 2" || h.Owner != ha.ID() || !h.Complete {
		t.Errorf("after a restart %+v", h)
	}
}

// Copies that nobody will complete, and those of owners who are it no more,
// are swept away; whole ones of a silent owner are not.
func TestSweep(t *testing.T) {
	ha, hb := hostPair(t)
	b := join(t, hb, open(t, ""), func(c *Config) { c.Sweep = 24 * 50 * time.Millisecond })
	whole, beaten := netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("203.0.112.0/24")
	b.k.mu.Lock()
	b.k.current = func(p netip.Prefix) (peer.ID, uint64, bool) {
		return ha.ID(), map[bool]uint64{true: 2, false: 1}[p == beaten], true
	}
	b.k.mu.Unlock()
	l := lie(t, ha, hb)
	begun := time.Now()
	for i, p := range []netip.Prefix{subnet, whole, beaten} {
		name := fmt.Sprintf("h%d.test", i)
		l.open(Open{Subnet: p, Epoch: 1})
		x := &snap{Subnet: p, Start: TailPos{Log: 1}, Ops: pieces(t, p, host1(name, p, p))}
		if p == subnet {
			x.Next = []byte("more")
		}
		l.send(down{Snap: x})
	}
	eventually(t, "the copies are there", func() bool {
		x, _ := b.Copy(whole)
		y, _ := b.Copy(beaten)
		return x.Complete && y.Complete
	})
	l.c.Reset()
	b.k.mu.Lock() // of another owner now
	b.k.current = func(p netip.Prefix) (peer.ID, uint64, bool) {
		if p == beaten {
			return hb.ID(), 2, true
		}
		return ha.ID(), 1, true
	}
	b.k.mu.Unlock()
	eventually(t, "the beaten one is gone", func() bool { _, ok := b.Copy(beaten); return !ok })
	eventually(t, "the one that is not complete is gone", func() bool { _, ok := b.Copy(subnet); return !ok })
	if took := time.Since(begun); took < time.Second {
		t.Errorf("the one that is not complete went after %v", took)
	}
	if h, ok := b.Copy(whole); !ok || !h.Complete || h.Heard.IsZero() || time.Since(h.Heard) < time.Second {
		t.Errorf("the whole one is %+v", h)
	}
}

// The log is forgotten up to what all followers have, and no further.
func TestTrim(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	crawl(t, a.db, "a.test", 20)
	flush(t, a, subnet)
	left := func() (n int) {
		head, _, _ := a.db.TailHead(subnet)
		for n < int(head.Seq) {
			err := a.db.View(func(tx *store.Tx) error {
				return tx.Tail(subnet, head.Seq-uint64(n)-1, func(uint64, []byte) (bool, error) { return false, nil })
			})
			if err != nil {
				return n
			}
			n++
		}
		return n
	}
	eventually(t, "all is trimmed", func() bool { return left() == 0 })
	b.stop()
	eventually(t, "the owner notices", func() bool { return a.State(subnet, hb.ID()).Err != nil })
	crawl(t, a.db, "a.test", 20)
	time.Sleep(1200 * time.Millisecond) // more than the pace of trimming
	if n := left(); n != 20 {
		t.Errorf("%d records are left of 20 that the follower lacks", n)
	}
}

// Many subnets cost one stream and a fixed number of goroutines.
func TestManySubnets(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	before := runtime.NumGoroutine()
	const n = 300
	var all []netip.Prefix
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24)
		if i > 255 {
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(i), 0}), 24)
		}
		all = append(all, p)
		plant(t, a.db, p, fmt.Sprintf("h%d.test", i), 3)
		follow(t, a, p, b)
	}
	for _, p := range all {
		flush(t, a, p)
	}
	if now := runtime.NumGoroutine(); now > before+40 {
		t.Errorf("%d goroutines, %d before", now, before)
	}
	for i, p := range all {
		push(t, a.db, fmt.Sprintf("h%d.test", i), 3, 5)
		_ = p
	}
	for _, p := range all {
		flush(t, a, p)
		same(t, a.db, b.db, p)
	}
	if len(b.Held()) != n {
		t.Errorf("%d are held", len(b.Held()))
	}
}

// What somebody waits for does not wait for a snapshot of another subnet.
func TestFlushOvertakesSnapshots(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	size := 60_000
	if testing.Short() {
		size = 20_000
	}
	plant(t, a.db, other, "large.test", size)
	follow(t, a, other, b)
	eventually(t, "the snapshot is on its way", func() bool { h, _ := b.Copy(other); return h.Pos.Log != 0 })
	n := 0
	for ; ; n++ {
		if h, _ := b.Copy(other); h.Complete {
			break
		}
		push(t, a.db, "c.test", n, n+1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := a.Flush(ctx, subnet); err != nil {
			t.Errorf("flush %d: %v", n, err)
		}
		cancel()
	}
	if n < 2 {
		t.Errorf("%d flushes while a snapshot was sent", n)
	}
	flush(t, a, other)
	same(t, a.db, b.db, subnet)
	same(t, a.db, b.db, other)
}

// A host that moves between two subnets of one owner moves in the copies too.
func TestHostMoves(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	plant(t, a.db, other, "x.test", 5)
	follow(t, a, subnet, b)
	follow(t, a, other, b)
	flush(t, a, subnet)
	flush(t, a, other)
	update(t, a.db, func(tx *store.Tx) error {
		h, err := tx.Host("b.test")
		if err != nil {
			return err
		}
		h.Subnet, h.Addr = other, other.Addr().Next()
		return nil
	})
	for _, p := range []netip.Prefix{other, subnet, other} {
		eventually(t, "flushed", func() bool { return a.Flush(within(t), p) == nil })
	}
	same(t, a.db, b.db, subnet)
	same(t, a.db, b.db, other)
}

// A Flush does not wait for what is gathered, nor for a Sync that has time.
func TestFlushIsFast(t *testing.T) {
	ha, hb := hostPair(t)
	slow := func(c *Config) { c.Gather, c.SyncEvery, c.Beat = time.Minute, time.Minute, 5*time.Second }
	a, b := join(t, ha, open(t, t.TempDir()), slow), join(t, hb, open(t, t.TempDir()), slow)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	begun := time.Now()
	for i := range 10 {
		push(t, a.db, "c.test", i, i+1)
		flush(t, a, subnet)
	}
	if took := time.Since(begun); took > 40*time.Second { // one alone would wait for a minute

		t.Errorf("ten took %v", took)
	} else {
		t.Logf("one took %v", took/10)
	}
}

// A copy is promoted as it is, or not at all.
func TestPromoteBy(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	boom := errors.New("boom")
	if err := b.PromoteBy(subnet, func(TailPos) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	push(t, a.db, "c.test", 0, 1)
	flush(t, a, subnet) // it is a copy still
	var at TailPos
	err := b.PromoteBy(subnet, func(pos TailPos) error {
		at = pos
		return b.db.Update(func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseOwned, Epoch: 2})
		})
	})
	if head, _, _ := a.db.TailHead(subnet); err != nil || at != head {
		t.Errorf("promoted at %v of %v: %v", at, head, err)
	}
	push(t, a.db, "c.test", 1, 2)
	if err := a.Flush(within(t), subnet); !errors.Is(err, ErrRefused) {
		t.Errorf("the old owner is told %v", err)
	}
	if err := b.PromoteBy(subnet, nil); !errors.Is(err, ErrNotHeld) {
		t.Errorf("promoted twice: %v", err)
	}
}
