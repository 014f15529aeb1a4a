package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"peerd/overlay/shadow"
	"peerd/overlay/wire"
	"peerd/store"
)

func TestHandover(t *testing.T) {
	a, b := pair(t)
	o, he := owns(t, open(t, ""), a), &heir{db: open(t, "")}
	serve(t, b, he)
	fill(t, o.db)
	want := contents(t, o.db)
	if err := o.leave(t, b.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, contents(t, he.db), want)
	if p := phase(t, he.db); p != store.PhaseOwned {
		t.Errorf("phase %v", p)
	}
	if b := want["b.test"]; len(b.visits) != 10 || b.learnt != "learned" || len(b.queue) != 2 {
		t.Errorf("handed over were %d visits, %q, %+v", len(b.visits), b.learnt, b.queue)
	}
	if n := he.links.Load(); n != outlinks {
		t.Errorf("%d out-links put aside", n)
	}
	update(t, he.db, func(tx *store.Tx) error {
		n := 0
		err := tx.Deferred("else.test", func(store.Pending) (bool, error) { n++; return true, nil })
		if n != outlinks {
			t.Errorf("%d out-links are there", n)
		}
		return err
	})
	// What is queued again here is not queued twice there.
	update(t, he.db, func(tx *store.Tx) error {
		if h, err := tx.Host("b.test"); err != nil || h.DueAt.After(time.UnixMicro(1e15).Add(time.Hour)) || h.DueAt.IsZero() || !h.Assigned {
			return fmt.Errorf("the host is %+v: %w", h, err)
		}
		due, err := tx.TakeDue("b.test", time.UnixMicro(1e15).Add(time.Hour), 100)
		if err != nil || len(due) != 1 {
			return fmt.Errorf("%d are due: %w", len(due), err)
		}
		if fresh, err := tx.PushAgain("b.test", store.Entry{URL: "http://b.test/9"}); fresh || err != nil {
			return fmt.Errorf("queued twice: %v, %w", fresh, err)
		}
		return nil
	})
}

// Prepare copies while the subnet is crawled; then little is left to be done.
func TestPrepare(t *testing.T) {
	a, b := pair(t)
	o, he := owns(t, open(t, ""), a), &heir{db: open(t, "")}
	c, _ := serve(t, b, he)
	fill(t, o.db)
	if err := o.s.Prepare(t.Context(), b.ID(), shadow.Open{Subnet: subnet, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if h, ok := c.Copy(subnet); !ok || !h.Complete {
		t.Fatalf("prepared, and the copy is %+v", h)
	}
	update(t, o.db, func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	})
	want := contents(t, o.db)
	if err := o.leave(t, b.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, contents(t, he.db), want)
}

// After it the old owner is a shadow of the heir without a snapshot.
func TestOldOwnerStaysAsShadow(t *testing.T) {
	a, b := pair(t)
	o, he := owns(t, open(t, ""), a), &heir{db: open(t, "")}
	b.Peerstore().AddAddrs(a.ID(), a.Addrs(), time.Hour)
	c, _ := serve(t, b, he)
	fill(t, o.db)
	if _, err := o.s.Send(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2}, func() ([]byte, error) { return []byte("grant"), nil }); err != nil {
		t.Fatal(err)
	}
	head, _, _ := o.db.TailHead(subnet)
	if err := o.svc.Demote(subnet, b.ID(), 2, []byte("lease")); err != nil {
		t.Fatal(err)
	}
	if h, ok := o.svc.Copy(subnet); !ok || !h.Complete || h.Pos != head || h.Owner != b.ID() {
		t.Fatalf("the old owner has %+v, want it at %v", h, head)
	}
	update(t, he.db, func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	})
	if err := c.Follow(subnet, a.ID(), shadow.Open{Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "flushed", func() bool { return c.Flush(t.Context(), subnet, a.ID()) == nil })
	if h, _ := o.svc.Copy(subnet); h.Pos.Seq != 1 {
		t.Errorf("it is at %v: there was a snapshot, or more than one change", h.Pos)
	}
	same(t, contents(t, o.db), contents(t, he.db))
}

// Wherever the line breaks, once or again, the subnet is at one peer, whole.
func TestBrokenAnywhere(t *testing.T) {
	a, b := pair(t)
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for i, gentle := range []bool{false, true} {
		done := false
		for n := 1 + i; !done; n += stride {
			c := &cutter{Host: a, left: n, gentle: gentle}
			o, he := owns(t, open(t, ""), c), &heir{db: open(t, "")}
			_, stop := serve(t, b, he)
			fill(t, o.db)
			want := contents(t, o.db)
			err := o.leave(t, b.ID())
			done = !c.wasCut()
			what := fmt.Sprintf("cut at %d, gentle %v", n, gentle)
			invariant(t, what, o.db, he.db, err)
			begun := time.Now()
			for again := 0; err != nil; again++ { // refused while the heir clears up
				// At first a cut one after the other, then a line that holds.
				if c.mend(3 + 4*again); again > 3 {
					c.mend(1 << 30)
				}
				if time.Since(begun) > time.Minute {
					t.Fatalf("%s: never ends: %v", what, err)
				}
				err = o.leave(t, b.ID())
				invariant(t, what, o.db, he.db, err)
			}
			stop()
			o.stop()
			same(t, contents(t, he.db), want)
			if left := contents(t, o.db); len(left) > 0 {
				t.Errorf("%s: the owner still has %d hosts", what, len(left))
			}
			if err := errors.Join(o.db.Close(), he.db.Close()); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatal(what)
			}
			_, _ = o.db.Close(), he.db.Close()
		}
	}
}

// invariant is what must hold whenever nothing moves at the owner's.
func invariant(t *testing.T, what string, owner, heir *store.DB, err error) {
	t.Helper()
	theirs := phase(t, heir) // first: it may change from the other to this
	ours := phase(t, owner)
	switch {
	case err == nil && (ours != store.PhaseNone || theirs != store.PhaseOwned && phase(t, heir) != store.PhaseOwned):
		t.Errorf("%s: done, and it is %v here and %v there", what, ours, theirs)
	case err != nil && ours == store.PhaseDeciding && theirs == store.PhaseOwned:
		t.Errorf("%s: owned by both", what)
	case errors.Is(err, ErrInDoubt) && ours != store.PhaseCommitting:
		t.Errorf("%s: in doubt, and it is %v here", what, ours)
	case err != nil && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrInDoubt) && !errors.Is(err, ErrRefused):
		t.Errorf("%s: %v", what, err)
	case err != nil && hosts(t, owner) != 3:
		t.Errorf("%s: the owner has forgotten a host", what)
	}
}

func hosts(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error { return tx.Hosts(func(store.Host) error { n++; return nil }) }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRefused(t *testing.T) {
	a, b := pair(t)
	o, he := owns(t, open(t, ""), a), &heir{db: open(t, ""), refuse: errors.New("no " + strings.Repeat("x", 1000))}
	serve(t, b, he)
	fill(t, o.db)
	err := o.leave(t, b.ID())
	if !errors.Is(err, ErrRefused) || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
	for name, offer := range map[string]Offer{
		"no subnet":   {Epoch: 2},
		"wide subnet": {Subnet: netip.MustParsePrefix("192.0.0.0/16"), Epoch: 2},
		"first epoch": {Subnet: subnet, Epoch: 1},
		"evidence":    {Subnet: subnet, Epoch: 2, Evidence: make([]byte, maxEvidence+1)},
		"estimations": {Subnet: subnet, Epoch: 2, Estimations: -1},
		"not wanted":  {Subnet: subnet, Epoch: 2},
	} {
		if _, err := o.s.Send(t.Context(), b.ID(), offer, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAdoptFails(t *testing.T) {
	a, b := pair(t)
	fail := true
	o, he := owns(t, open(t, ""), a), &heir{db: open(t, "")}
	he.adopt = func() error {
		if fail {
			fail = false
			return errors.New("beaten")
		}
		return nil
	}
	serve(t, b, he)
	fill(t, o.db)
	want := contents(t, o.db)
	if err := o.leave(t, b.ID()); !errors.Is(err, ErrInDoubt) {
		t.Fatalf("%v", err)
	}
	eventually(t, "asked again until it is done", func() bool { return o.leave(t, b.ID()) == nil })
	same(t, contents(t, he.db), want)
}

// opened is a handover that has got as far as the heir's word.
func opened(t *testing.T, from, to host.Host, o Offer) (*wire.Conn, reply) {
	t.Helper()
	c, err := wire.Dial(t.Context(), from, to.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := exchange(c, o, &r); err != nil {
		t.Fatal(err)
	}
	return c, r
}

// prepared is an owner whose heir has everything.
func prepared(t *testing.T) (a, b host.Host, o *owner, he *heir, offer Offer) {
	t.Helper()
	a, b = pair(t)
	o, he = owns(t, open(t, ""), a), &heir{db: open(t, "")}
	serve(t, b, he)
	fill(t, o.db)
	offer = Offer{Subnet: subnet, Epoch: 2}
	if err := o.s.Prepare(t.Context(), b.ID(), offer.open()); err != nil {
		t.Fatal(err)
	}
	offer.Pos, _, _ = o.db.TailHead(subnet)
	return a, b, o, he, offer
}

func TestOneStreamASubnet(t *testing.T) {
	a, b, o, _, offer := prepared(t)
	c, r := opened(t, a, b, offer)
	if r.Verdict != verdictPrepared || r.Pos != offer.Pos {
		t.Fatalf("%+v", r)
	}
	err := o.leave(t, b.ID())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second stream: %v", err)
	}
	c.Reset()
	eventually(t, "the next one is taken", func() bool { return o.leave(t, b.ID()) == nil })
}

// A copy that is elsewhere than the owner says is not adopted, whatever the
// owner grants.
func TestOnlyTheWholeIsAdopted(t *testing.T) {
	a, b, o, he, offer := prepared(t)
	stranger := listen(t)
	stranger.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
	ahead := offer
	ahead.Pos.Seq++
	nowhere := offer
	nowhere.Subnet = other
	for what, x := range map[string]struct {
		from  host.Host
		offer Offer
	}{"elsewhere": {a, ahead}, "no copy": {a, nowhere}, "another's copy": {stranger, offer}, "no log": {a, Offer{Subnet: subnet, Epoch: 2}}} {
		c, r := opened(t, x.from, b, x.offer)
		if r.Verdict != verdictBehind {
			t.Errorf("%s: %+v", what, r)
		}
		c.Reset()
	}
	// It goes on between the word and the grant.
	c, r := opened(t, a, b, offer)
	if r.Verdict != verdictPrepared {
		t.Fatalf("%+v", r)
	}
	update(t, o.db, func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	})
	if err := o.svc.Flush(t.Context(), subnet); err != nil {
		t.Fatal(err)
	}
	var d done
	if err := exchange(c, commit{Grant: []byte("grant")}, &d); err == nil || phase(t, he.db) == store.PhaseOwned {
		t.Errorf("adopted at another place: %v, %v", err, phase(t, he.db))
	}
	eventually(t, "it is handed over all the same", func() bool { return o.leave(t, b.ID()) == nil })
}

// An heir that has not all of it is granted nothing.
func TestNothingIsCommittedUnseen(t *testing.T) {
	a, b := pair(t)
	o := owns(t, open(t, ""), a)
	fill(t, o.db)
	if err := o.svc.Follow(subnet, b.ID(), shadow.Open{Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	head, _, _ := o.db.TailHead(subnet)
	for _, lie := range []store.TailPos{{}, {Log: head.Log, Seq: head.Seq + 1}, {Log: head.Log + 1, Seq: head.Seq}} {
		server := wire.Serve(b, proto, limits, nil, func(_ context.Context, c *wire.Conn) error {
			var o Offer
			if err := c.Recv(&o); err != nil {
				return err
			}
			return c.Send(reply{Verdict: verdictPrepared, Pos: lie})
		})
		if err := o.leave(t, b.ID()); !errors.Is(err, ErrBroken) || phase(t, o.db) != store.PhaseDeciding {
			t.Errorf("%+v: %v, %v", lie, err, phase(t, o.db))
		}
		server.Close()
	}
}
