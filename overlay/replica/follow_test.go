package replica

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

func TestUnfollow(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	for _, drop := range []bool{false, true} {
		follow(t, a, subnet, b)
		flush(t, a, subnet)
		a.Unfollow(subnet, hb.ID(), drop)
		if f := a.State(subnet, hb.ID()); !errors.Is(f.Err, ErrNotFollowed) || f.Synced {
			t.Errorf("State() = %+v after Unfollow, want ErrNotFollowed", f)
		}
		if err := a.Flush(withTimeout(t), subnet, hb.ID()); !errors.Is(err, ErrNotFollowed) {
			t.Errorf("Flush() = %v, want ErrNotFollowed", err)
		}
		eventually(t, "the replica is told", func() bool {
			h, ok := b.Copy(subnet)
			return !ok || !h.Live
		})
		if h, ok := b.Copy(subnet); drop && ok || !drop && (!ok || !h.Complete) {
			t.Errorf("drop %v: Copy() = %+v, %v; want a copy: %v", drop, h, ok, !drop)
		}
	}
	eventually(t, "the copy is wiped", func() bool {
		err := b.db.View(func(tx *store.Tx) error { _, err := tx.Subnet(subnet); return err })
		return errors.Is(err, store.ErrNotFound) && len(contents(t, b.db, subnet)) == 0
	})
	eventually(t, "the link ends", func() bool {
		a.sources.mu.Lock()
		defer a.sources.mu.Unlock()
		return len(a.sources.links) == 0
	})
	follow(t, a, subnet, b) // the link is created again
	flush(t, a, subnet)
	checkSame(t, a.db, b.db, subnet)
}

// ownerOfStopped returns the owner of a subnet with a replica that was stopped, and its host and
// directory. The owner sees the link broken.
func ownerOfStopped(t *testing.T) (a *member, hb host.Host, bdir string) {
	t.Helper()
	ha, hb := hostPair(t)
	bdir = t.TempDir()
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, bdir), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	b.stop()
	_ = b.db.Close()
	eventually(t, "the owner sees the link broken", func() bool {
		return errors.Is(a.State(subnet, hb.ID()).Err, ErrLink)
	})
	return a, hb, bdir
}

// A replica that is not running is told of an Unfollow when it returns.
func TestCloseReachesReplica(t *testing.T) {
	t.Parallel()
	a, hb, bdir := ownerOfStopped(t)
	if f := a.State(subnet, hb.ID()); f.Synced || f.Since.IsZero() {
		t.Errorf("State() = %+v, want not synced", f)
	}
	if err := a.Flush(withTimeout(t), subnet); !errors.Is(err, ErrLink) {
		t.Errorf("Flush() = %v, want ErrLink", err)
	}
	a.Unfollow(subnet, hb.ID(), true)
	b := startMember(t, hb, open(t, bdir), nil)
	eventually(t, "the replica is told", func() bool { return len(b.Copies()) == 0 })
}

// A close request that was sent, and lost with its stream, is sent again.
func TestLostCloseIsSentAgain(t *testing.T) {
	t.Parallel()
	a, hb, bdir := ownerOfStopped(t)
	a.Unfollow(subnet, hb.ID(), true)
	lost := make(chan struct{}, 1)
	hb.SetStreamHandler(proto, func(st network.Stream) {
		if _, err := st.Read(make([]byte, 1)); err == nil {
			select {
			case lost <- struct{}{}:
			default:
			}
		}
		_ = st.Reset()
	})
	<-lost
	b := startMember(t, hb, open(t, bdir), nil)
	eventually(t, "the replica is told", func() bool { return len(b.Copies()) == 0 })
}

func TestRefusedThenRetried(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	b.policy.set(errors.New("not now"))
	follow(t, a, subnet, b)
	if err := a.Await(withTimeout(t), subnet, hb.ID()); !errors.Is(err, ErrRefused) {
		t.Errorf("Await() = %v, want ErrRefused", err)
	}
	b.policy.set(fmt.Errorf("%w: 7", ErrStale))
	eventually(t, "the request is repeated", func() bool {
		return errors.Is(a.State(subnet, hb.ID()).Err, ErrStale)
	})
	b.policy.set(nil)
	eventually(t, "the request is repeated", func() bool { return a.State(subnet, hb.ID()).Synced })
	b.policy.mu.Lock()
	o := b.policy.opens[len(b.policy.opens)-1]
	b.policy.mu.Unlock()
	if string(o.Lease) != "lease" || string(o.Evidence) != "evidence" || o.Subnet != subnet {
		t.Errorf("the last request is %+v, want the lease and evidence of the record", o)
	}
}

// New leases and witness sets reach the replica without a new snapshot.
func TestLeaseAndWitnessSetReachReplica(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	bdir := t.TempDir()
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, bdir), nil)
	addOwned(t, a.db, subnet)
	a.SetWitnessSet([]byte("set 1"))
	if err := a.Follow(subnet, hb.ID(), 1); err != nil {
		t.Fatal(err)
	}
	flush(t, a, subnet)
	before, _ := b.Copy(subnet)
	if string(before.WitnessSet) != "set 1" {
		t.Errorf("WitnessSet = %q, want %q", before.WitnessSet, "set 1")
	}
	a.SetWitnessSet([]byte("set 2"))
	update(t, a.db, func(tx *store.Tx) error {
		rec, err := tx.Subnet(subnet)
		rec.Epoch, rec.Lease = 2, []byte("lease 2")
		return errors.Join(err, tx.PutSubnet(rec))
	})
	if err := a.Follow(subnet, hb.ID(), 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both have arrived", func() bool {
		h, _ := b.Copy(subnet)
		return string(h.WitnessSet) == "set 2" && string(h.Lease) == "lease 2"
	})
	flush(t, a, subnet)
	if h, _ := b.Copy(subnet); h.Pos != before.Pos || !h.Complete {
		t.Errorf("Copy() = %+v, was %+v; want the same position", h, before)
	}
	b.stop()
	_ = b.db.Close()
	b = startMember(t, hb, open(t, bdir), nil)
	if h, ok := b.Copy(subnet); !ok || string(h.WitnessSet) != "set 2" ||
		string(h.Lease) != "lease 2" || h.Owner != ha.ID() || !h.Complete {
		t.Errorf("Copy() = %+v, %v after a restart, want the new lease and set", h, ok)
	}
}

// What the owner has learned reaches the replica with the next changes, at intervals.
func TestEvidenceReachesReplica(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	arrived := func() string {
		var rec store.Subnet
		err := b.db.View(func(tx *store.Tx) (err error) {
			rec, err = tx.Subnet(subnet)
			return err
		})
		if err != nil || rec.Phase != store.PhaseReplica {
			t.Fatalf("the copy is %+v, %v", rec, err)
		}
		return fmt.Sprint(string(rec.Evidence), " ", rec.Estimations)
	}
	for i, step := range []struct {
		evidence string
		due      bool
		want     string
	}{
		{"evidence", true, "evidence 0"}, // was sent with the request to keep a copy
		{"more", false, "evidence 0"},
		{"more", true, "more 2"},
		{"most", true, "most 3"},
	} {
		update(t, a.db, func(tx *store.Tx) error {
			rec, err := tx.Subnet(subnet)
			rec.Evidence, rec.Estimations = []byte(step.evidence), i
			return errors.Join(err, tx.PutSubnet(rec))
		})
		at := time.Now().Add(time.Hour)
		if step.due {
			at = time.Time{}
		}
		a.sources.mu.Lock()
		a.sources.follower(subnet, hb.ID()).evidence.at = at
		a.sources.mu.Unlock()
		crawl(t, a.db, "b.test", 1)
		flush(t, a, subnet)
		if got := arrived(); got != step.want {
			t.Errorf("step %d: the replica has %q, want %q", i, got, step.want)
		}
	}
	checkSame(t, a.db, b.db, subnet)
}

// What is stored of an owner is deleted when there is no copy of its subnets any more.
func TestFormerOwner(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a := startMember(t, ha, open(t, ""), nil)
	b := startMember(t, hb, open(t, ""), func(c *Config) {
		c.SweepAfter = time.Hour
		c.Uptime = (&machine{boot: "1", at: time.Now()}).uptime
	})
	addOwned(t, a.db, subnet)
	a.SetWitnessSet([]byte("set"))
	if err := a.Follow(subnet, hb.ID(), 1); err != nil {
		t.Fatal(err)
	}
	flush(t, a, subnet)
	eventually(t, "the copy is confirmed", func() bool {
		h, _ := b.Copy(subnet)
		return !h.Confirmed.IsZero()
	})
	if err := b.server.saveConfirmed(); err != nil {
		t.Fatal(err)
	}
	kept := func() (n int) {
		if err := b.copies.sweepOwners(); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{witnessSetKey(ha.ID()), confirmedKey(ha.ID())} {
			err := b.db.View(func(tx *store.Tx) error {
				_, err := tx.Data(key)
				return err
			})
			if err == nil {
				n++
			} else if !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
		}
		return n
	}
	if h, _ := b.Copy(subnet); kept() != 2 || string(h.WitnessSet) != "set" {
		t.Error("the witness set and the confirmed time are not kept with the copy")
	}
	a.Unfollow(subnet, hb.ID(), true)
	eventually(t, "the copy is dropped", func() bool { return len(b.Copies()) == 0 })
	if n := kept(); n > 0 {
		t.Errorf("%d records of the owner are kept without a copy", n)
	}
	b.copies.mu.Lock()
	defer b.copies.mu.Unlock()
	if n := len(b.copies.witnessSets); n != 0 {
		t.Errorf("%d witness sets in memory, want none", n)
	}
}

// Incomplete copies, and those of former owners, are dropped after a time; complete
// ones of a silent owner are kept.
func TestSweep(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	b := startMember(t, hb, open(t, ""), func(c *Config) {
		c.SweepAfter = 24 * 50 * time.Millisecond
	})
	complete, former := netip.MustParsePrefix("203.0.113.0/24"),
		netip.MustParsePrefix("203.0.112.0/24")
	b.policy.mu.Lock()
	b.policy.current = func(p netip.Prefix) (peer.ID, uint64, bool) {
		return ha.ID(), map[bool]uint64{true: 2, false: 1}[p == former], true
	}
	b.policy.mu.Unlock()
	l := newMaliciousOwner(t, ha, hb)
	began := time.Now()
	for i, p := range []netip.Prefix{subnet, complete, former} {
		name := fmt.Sprintf("h%d.test", i)
		l.open(OpenRequest{Subnet: p, Epoch: 1})
		x := &snapshotPiece{Subnet: p, Start: LogPos{Log: 1},
			Ops: pieces(t, p, putHost(name, p, p))}
		if p == subnet {
			x.Next = []byte("more")
		}
		l.send(ownerFrame{Piece: x})
	}
	eventually(t, "two copies are complete", func() bool {
		x, _ := b.Copy(complete)
		y, _ := b.Copy(former)
		return x.Complete && y.Complete
	})
	l.c.Reset()
	b.policy.mu.Lock() // of another owner now
	b.policy.current = func(p netip.Prefix) (peer.ID, uint64, bool) {
		if p == former {
			return "another", 2, true
		}
		return ha.ID(), 1, true
	}
	b.policy.mu.Unlock()
	eventually(t, "the copy of the former owner is dropped", func() bool {
		_, ok := b.Copy(former)
		return !ok
	})
	eventually(t, "the incomplete copy is dropped", func() bool {
		_, ok := b.Copy(subnet)
		return !ok
	})
	if took := time.Since(began); took < time.Second {
		t.Errorf("the incomplete copy was dropped after %v, want 1s or more", took)
	}
	if h, ok := b.Copy(complete); !ok || !h.Complete || h.Heard.IsZero() ||
		time.Since(h.Heard) < time.Second {
		t.Errorf("Copy() = %+v, %v for the complete copy, want it kept", h, ok)
	}
}

// The log is trimmed up to what all followers have, and no further.
func TestTrim(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	crawl(t, a.db, "a.test", 20)
	flush(t, a, subnet)
	left := func() (n int) {
		head, _, _ := a.db.LogHead(subnet)
		for n < int(head.Seq) {
			err := a.db.View(func(tx *store.Tx) error {
				return tx.LogRecords(subnet, head.Seq-uint64(n)-1,
					func(uint64, []byte) (bool, error) {
						return false, nil
					})
			})
			if err != nil {
				return n
			}
			n++
		}
		return n
	}
	eventually(t, "the log is trimmed", func() bool { return left() == 0 })
	b.stop()
	eventually(t, "the owner sees the link broken", func() bool {
		return a.State(subnet, hb.ID()).Err != nil
	})
	crawl(t, a.db, "a.test", 20)
	time.Sleep(1200 * time.Millisecond) // longer than the interval of trimming
	if n := left(); n != 20 {
		t.Errorf("%d records are left, want the 20 that the follower lacks", n)
	}
}

// Many subnets use one stream and a fixed number of goroutines.
func TestManySubnets(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	before := runtime.NumGoroutine()
	const n = 300
	var all []netip.Prefix
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(i), 0}), 24)
		if i > 255 {
			p = netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(i), 0}), 24)
		}
		all = append(all, p)
		addHost(t, a.db, p, fmt.Sprintf("h%d.test", i), 3)
		follow(t, a, p, b)
	}
	for _, p := range all {
		flush(t, a, p)
	}
	if now := runtime.NumGoroutine(); now > before+40 {
		t.Errorf("%d goroutines, want about %d as before", now, before)
	}
	for i, p := range all {
		push(t, a.db, fmt.Sprintf("h%d.test", i), 3, 5)
		_ = p
	}
	for _, p := range all {
		flush(t, a, p)
		checkSame(t, a.db, b.db, p)
	}
	if len(b.Copies()) != n {
		t.Errorf("%d copies, want %d", len(b.Copies()), n)
	}
}

// A host that moves between two subnets of one owner moves in the copies too.
func TestHostMoves(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	addHost(t, a.db, other, "x.test", 5)
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
		eventually(t, "Flush succeeds", func() bool { return a.Flush(withTimeout(t), p) == nil })
	}
	checkSame(t, a.db, b.db, subnet)
	checkSame(t, a.db, b.db, other)
}

// A copy is promoted in its current state, or not at all.
func TestPromote(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	boom := errors.New("boom")
	if err := b.Promote(subnet, func(LogPos) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Promote() = %v, want the error of fn", err)
	}
	push(t, a.db, "c.test", 0, 1)
	flush(t, a, subnet) // it is still a copy
	var at LogPos
	err := b.Promote(subnet, func(pos LogPos) error {
		at = pos
		return b.db.Update(func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: store.PhaseOwned, Epoch: 2})
		})
	})
	if head, _, _ := a.db.LogHead(subnet); err != nil || at != head {
		t.Errorf("Promote() = %v at %v, want nil at %v", err, at, head)
	}
	push(t, a.db, "c.test", 1, 2)
	if err := a.Flush(withTimeout(t), subnet); !errors.Is(err, ErrRefused) {
		t.Errorf("Flush() = %v at the old owner, want ErrRefused", err)
	}
	if err := b.Promote(subnet, nil); !errors.Is(err, ErrNotHeld) {
		t.Errorf("Promote() = %v the second time, want ErrNotHeld", err)
	}
}

// A host that moves from a subnet of the replica's to the one that it copies is in the copy when
// the replica has given it up.
func TestHostMovesFromReplica(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(db *store.DB) error{
		"dropped": func(db *store.DB) error { return db.DropHost("x.test") },
		"made part of the copy": func(db *store.DB) error {
			return db.Update(func(tx *store.Tx) error {
				return tx.MoveHost("x.test", subnet, subnet.Addr().Next())
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ha, hb := hostPair(t)
			a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
			addOwned(t, a.db, subnet)
			update(t, b.db, func(tx *store.Tx) error {
				return tx.PutSubnet(store.Subnet{Prefix: other, Phase: store.PhaseOwned, Epoch: 1})
			})
			addHost(t, b.db, other, "x.test", 5)
			follow(t, a, subnet, b)
			flush(t, a, subnet)
			addHost(t, a.db, subnet, "x.test", 7)
			flush(t, a, subnet)
			if h := contents(t, b.db, other)["x.test"]; h == nil {
				t.Fatal("the host has left the replica's own subnet")
			}
			if err := leave(b.db); err != nil {
				t.Fatal(err)
			}
			push(t, a.db, "x.test", 7, 9)
			eventually(t, "the copy has the host", func() bool {
				es, _ := contents(t, b.db, subnet)["x.test queue"].([]store.Entry)
				return len(es) == 9 && a.Flush(withTimeout(t), subnet) == nil
			})
			checkSame(t, a.db, b.db, subnet)
			b.copies.mu.Lock()
			defer b.copies.mu.Unlock()
			if at := b.copies.held[subnet].progress; len(at.Omitted) > 0 {
				t.Errorf("the copy lacks %v", at.Omitted)
			}
		})
	}
}
