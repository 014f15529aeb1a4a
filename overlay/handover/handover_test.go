package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/replica"
	"peerd/overlay/wire"
	"peerd/store"
)

func TestHandover(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	o, he := newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, "")}
	serve(t, b, he)
	fill(t, o.db)
	want := contents(t, o.db)
	if err := o.handOver(t, b.ID()); err != nil {
		t.Fatal(err)
	}
	checkSame(t, contents(t, he.db), want)
	if p := phase(t, he.db); p != store.PhaseOwned {
		t.Errorf("phase = %v, want %v", p, store.PhaseOwned)
	}
	if b := want["b.test"]; len(b.visits) != 10 || b.learnt != "learned" || len(b.queue) != 2 {
		t.Errorf("handed over: %d visits, state %q, queue %+v; want 10, \"learned\", 2 entries",
			len(b.visits), b.learnt, b.queue)
	}
	if n := he.links.Load(); n != outlinks {
		t.Errorf("PendingAdded got %d out-links, want %d", n, outlinks)
	}
	update(t, he.db, func(tx *store.Tx) error {
		n := 0
		err := tx.PendingOf("else.test", func(store.Pending) (bool, error) {
			n++
			return true, nil
		})
		if n != outlinks {
			t.Errorf("%d pending URLs, want %d", n, outlinks)
		}
		return err
	})
	// A URL that is queued again at the owner is not queued twice at the successor.
	update(t, he.db, func(tx *store.Tx) error {
		if h, err := tx.Host("b.test"); err != nil ||
			h.DueAt.After(time.UnixMicro(1e15).Add(time.Hour)) || h.DueAt.IsZero() || !h.Assigned {
			return fmt.Errorf("host = %+v, want it due and assigned: %w", h, err)
		}
		due, err := tx.TakeDue("b.test", time.UnixMicro(1e15).Add(time.Hour), 100)
		if err != nil || len(due) != 1 {
			return fmt.Errorf("TakeDue() = %d visits, want 1: %w", len(due), err)
		}
		if fresh, err := tx.PushRevisit("b.test", store.Entry{URL: "http://b.test/9"}); fresh ||
			err != nil {
			return fmt.Errorf("PushAgain() = %v for a queued URL, want false: %w", fresh, err)
		}
		return nil
	})
}

// A subnet is copied while it is crawled; Send then only copies the rest.
func TestPrepare(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	o, he := newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, "")}
	c, _ := serve(t, b, he)
	fill(t, o.db)
	if err := o.s.prepare(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2}); err != nil {
		t.Fatal(err)
	}
	if h, ok := c.Copy(subnet); !ok || !h.Complete {
		t.Fatalf("Copy() = %+v, %v after Prepare, want a complete one", h, ok)
	}
	update(t, o.db, func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	})
	want := contents(t, o.db)
	if err := o.handOver(t, b.ID()); err != nil {
		t.Fatal(err)
	}
	checkSame(t, contents(t, he.db), want)
}

// handedOver returns an owner that has handed the subnet over, and the successor with its copies.
func handedOver(t *testing.T) (
	o *owner, he *fakeSuccessor, c *replica.Service, next peer.ID,
) {
	t.Helper()
	a, b := pair(t)
	o, he = newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, "")}
	b.Peerstore().AddAddrs(a.ID(), a.Addrs(), time.Hour)
	c, _ = serve(t, b, he)
	fill(t, o.db)
	if _, err := o.s.Send(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2},
		func() ([]byte, error) { return []byte("grant"), nil }); err != nil {
		t.Fatal(err)
	}
	return o, he, c, b.ID()
}

// keptInCopy has the successor follow the old owner's copy, after an entry was added there that a
// snapshot would delete. It returns how many entries of a.test only the copy has.
func keptInCopy(t *testing.T, o *owner, he *fakeSuccessor, c *replica.Service) int {
	t.Helper()
	update(t, o.db, func(tx *store.Tx) error {
		_, err := tx.Push("a.test", store.Entry{URL: "http://a.test/kept"}, 0)
		return err
	})
	old := o.s.Host.ID()
	if err := c.Follow(subnet, old, 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Flush succeeds", func() bool { return c.Flush(t.Context(), subnet, old) == nil })
	return len(contents(t, o.db)["a.test"].queue) - len(contents(t, he.db)["a.test"].queue)
}

// The old owner becomes a replica of the successor without a snapshot, also if it delivers an
// out-link after the successor has everything.
func TestOldOwnerStaysReplica(t *testing.T) {
	t.Parallel()
	o, he, c, next := handedOver(t)
	update(t, o.db, deliverOutlink)
	head, _, _ := o.db.LogHead(subnet)
	confirmed := time.Now()
	if err := o.svc.Demote(subnet, next, 2, []byte("lease"), confirmed); err != nil {
		t.Fatal(err)
	}
	if h, ok := o.svc.Copy(subnet); !ok || !h.Complete || h.Pos != head || h.Owner != next ||
		!h.Confirmed.Equal(confirmed) {
		t.Fatalf("Copy() = %+v, %v at the old owner, want a complete one at %v, confirmed %v", h,
			ok, head, confirmed)
	}
	push := func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	}
	update(t, he.db, push)
	if n := keptInCopy(t, o, he, c); n != 1 {
		t.Errorf("the copy of a.test has %d entries more, want 1: a snapshot came", n)
	}
	if got, want := contents(t, o.db)["c.test"], contents(t, he.db)["c.test"]; len(got.queue) !=
		len(want.queue) {
		t.Errorf("the copy of c.test has %d entries, want %d", len(got.queue), len(want.queue))
	}
}

// A copy that the old owner has kept of what was taken over is complete, and replaced by what the
// new owner has.
func TestKeptCopyIsReplaced(t *testing.T) {
	t.Parallel()
	o, he, c, next := handedOver(t)
	head, _, _ := o.db.LogHead(subnet)
	if err := o.svc.Keep(subnet, next, 2, []byte("lease")); err != nil {
		t.Fatal(err)
	}
	h, ok := o.svc.Copy(subnet)
	if !ok || !h.Complete || h.Pos.Log == head.Log || h.Owner != next || !h.Confirmed.IsZero() {
		t.Fatalf("Copy() = %+v, %v at the old owner, want a complete one in another log", h, ok)
	}
	if n := keptInCopy(t, o, he, c); n != 0 {
		t.Errorf("the copy of a.test has %d entries more, want 0: no snapshot came", n)
	}
}

// deliverOutlink removes the first URL that waits for else.test.
func deliverOutlink(tx *store.Tx) error {
	var u store.URL
	if err := tx.PendingOf("else.test", func(p store.Pending) (bool, error) {
		u = p.URL
		return false, nil
	}); err != nil {
		return err
	}
	return tx.RemovePending(u)
}

// Wherever the connection breaks, once or more, one peer owns the subnet, with all data.
func TestConnectionBreaksAnywhere(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	const stride = 2
	for i, gentle := range []bool{false, true} {
		done := false
		for n := 1 + i; !done; n += stride {
			c := &flakyHost{Host: a, left: n, gentle: gentle}
			o, he := newOwner(t, open(t, ""), c), &fakeSuccessor{db: open(t, "")}
			_, stop := serve(t, b, he)
			fill(t, o.db)
			want := contents(t, o.db)
			err := o.handOver(t, b.ID())
			done = !c.wasCut()
			what := fmt.Sprintf("broken at %d, gentle %v", n, gentle)
			invariant(t, what, o.db, he.db, err)
			began := time.Now()
			for again := 0; err != nil; again++ { // refused while the successor cleans up
				// First a few more breaks, then a connection that holds.
				if c.repair(3 + 4*again); again > 3 {
					c.repair(1 << 30)
				}
				if time.Since(began) > 5*time.Minute {
					t.Fatalf("%s: Send() = %v for five minutes, want nil", what, err)
				}
				err = o.handOver(t, b.ID())
				invariant(t, what, o.db, he.db, err)
			}
			stop()
			o.stop()
			checkSame(t, contents(t, he.db), want)
			if left := contents(t, o.db); len(left) > 0 {
				t.Errorf("%s: the owner has %d hosts, want none", what, len(left))
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

// invariant checks what must hold whenever the owner is idle.
func invariant(t *testing.T, what string, owner, successor *store.DB, err error) {
	t.Helper()
	theirs := phase(t, successor) // first: it may change from the other to this
	ours := phase(t, owner)
	switch {
	case err == nil && (ours != store.PhaseNone || theirs != store.PhaseOwned &&
		phase(t, successor) != store.PhaseOwned):
		t.Errorf("%s: Send() = nil with phases %v and %v, want none and owned",
			what, ours, theirs)
	case err != nil && ours == store.PhaseDeciding && theirs == store.PhaseOwned:
		t.Errorf("%s: both peers own the subnet", what)
	case errors.Is(err, ErrOutcomeUnknown) && ours != store.PhaseCommitting:
		t.Errorf("%s: outcome unknown with phase %v, want %v", what, ours, store.PhaseCommitting)
	case err != nil && !errors.Is(err, ErrBroken) && !errors.Is(err, ErrOutcomeUnknown) &&
		!errors.Is(err, ErrRefused):
		t.Errorf("%s: Send() = %v, want one of the package's errors", what, err)
	case err != nil && hosts(t, owner) != 3:
		t.Errorf("%s: the owner has lost a host", what)
	}
}

func hosts(t *testing.T, db *store.DB) (n int) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		return tx.Hosts(
			func(store.Host) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRefused(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	o, he := newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, ""),
		refuse: errors.New("no " + strings.Repeat("x", 1000))}
	serve(t, b, he)
	fill(t, o.db)
	err := o.handOver(t, b.ID())
	if !errors.Is(err, ErrRefused) || len(err.Error()) > 400 {
		t.Errorf("Send() = %v, want ErrRefused with a short reason", err)
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
			t.Errorf("%s: Send() = %v, want ErrRefused", name, err)
		}
	}
}

func TestTakeOwnershipFails(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	fail := true
	o, he := newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, "")}
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
	if err := o.handOver(t, b.ID()); !errors.Is(err, ErrOutcomeUnknown) {
		t.Fatalf("Send() = %v, want ErrOutcomeUnknown", err)
	}
	eventually(t, "a repeated Send succeeds", func() bool {
		return o.handOver(t, b.ID()) == nil
	})
	checkSame(t, contents(t, he.db), want)
}

// sendOffer sends an offer and returns the reply. It repeats it while the receiver has not noticed
// that the stream before has ended.
func sendOffer(t *testing.T, from, to host.Host, o Offer) (c *wire.Conn, r reply) {
	t.Helper()
	eventually(t, "the stream before has ended", func() bool {
		var err error
		if c, err = wire.Dial(t.Context(), from, to.ID(), limits, proto); err != nil {
			t.Fatal(err)
		}
		r = reply{}
		if err := exchange(c, o, &r); err != nil {
			t.Fatal(err)
		}
		if r.Reason == errReceiving.Error() {
			c.Reset()
			return false
		}
		return true
	})
	return c, r
}

// newPrepared returns an owner and a successor with a complete copy.
func newPrepared(t *testing.T) (a, b host.Host, o *owner, he *fakeSuccessor, offer Offer) {
	t.Helper()
	a, b = pair(t)
	o, he = newOwner(t, open(t, ""), a), &fakeSuccessor{db: open(t, "")}
	serve(t, b, he)
	fill(t, o.db)
	offer = Offer{Subnet: subnet, Epoch: 2}
	if err := o.s.prepare(t.Context(), b.ID(), offer); err != nil {
		t.Fatal(err)
	}
	offer.Pos, _, _ = o.db.LogHead(subnet)
	return a, b, o, he, offer
}

func TestOneStreamPerSubnet(t *testing.T) {
	t.Parallel()
	a, b, o, _, offer := newPrepared(t)
	c, r := sendOffer(t, a, b, offer)
	if r.Status != statusPrepared || r.Pos != offer.Pos {
		t.Fatalf("reply = %+v, want statusPrepared at %v", r, offer.Pos)
	}
	err := o.handOver(t, b.ID())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "already") {
		t.Errorf("Send() = %v on a second stream, want ErrRefused", err)
	}
	c.Reset()
	eventually(t, "the next Send succeeds", func() bool { return o.handOver(t, b.ID()) == nil })
}

// Another peer's offer of the subnet, however long it takes, does not keep the owner from handing
// it over.
func TestOffersOfOthersDoNotBlock(t *testing.T) {
	t.Parallel()
	_, b, o, he, offer := newPrepared(t)
	stranger := listen(t)
	stranger.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
	began, over := make(chan struct{}), make(chan struct{})
	he.offer = func(from peer.ID) {
		if from == stranger.ID() {
			close(began)
			<-over
		}
	}
	var done sync.WaitGroup
	done.Go(func() {
		c, _ := sendOffer(t, stranger, b, offer)
		c.Reset()
	})
	<-began
	if err := o.handOver(t, b.ID()); err != nil {
		t.Errorf("Send() = %v while another peer offers the subnet, want nil", err)
	}
	close(over)
	done.Wait()
}

// A copy at another position than offered is not taken over, even with a grant.
func TestOnlyCompleteCopyTaken(t *testing.T) {
	t.Parallel()
	a, b, o, he, offer := newPrepared(t)
	stranger := listen(t)
	stranger.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
	ahead := offer
	ahead.Pos.Seq++
	nowhere := offer
	nowhere.Subnet = other
	for what, x := range map[string]struct {
		from  host.Host
		offer Offer
	}{"another position": {a, ahead}, "no copy": {a, nowhere}, "another's copy": {stranger, offer},
		"no log": {a, Offer{Subnet: subnet, Epoch: 2}}} {
		c, r := sendOffer(t, x.from, b, x.offer)
		if r.Status != statusBehind {
			t.Errorf("%s: reply = %+v, want statusBehind", what, r)
		}
		c.Reset()
	}
	// The log grows between the offer and the grant.
	c, r := sendOffer(t, a, b, offer)
	if r.Status != statusPrepared {
		t.Fatalf("reply = %+v, want statusPrepared", r)
	}
	update(t, o.db, func(tx *store.Tx) error {
		_, err := tx.Push("c.test", store.Entry{URL: "http://c.test/late"}, 0)
		return err
	})
	if err := o.svc.Flush(t.Context(), subnet); err != nil {
		t.Fatal(err)
	}
	var d done
	if err := exchange(c, commit{Grant: []byte("grant")}, &d); err == nil ||
		phase(t, he.db) == store.PhaseOwned {
		t.Errorf("commit = %v with phase %v at another position, want an error",
			err, phase(t, he.db))
	}
	eventually(t, "a new Send succeeds", func() bool {
		return o.handOver(t, b.ID()) == nil
	})
}

// A successor without a complete copy gets no grant.
func TestNoCommitWithoutCopy(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	o := newOwner(t, open(t, ""), a)
	fill(t, o.db)
	if err := o.svc.Follow(subnet, b.ID(), 1); err != nil {
		t.Fatal(err)
	}
	head, _, _ := o.db.LogHead(subnet)
	for _, lie := range []store.LogPos{{}, {Log: head.Log, Seq: head.Seq + 1},
		{Log: head.Log + 1, Seq: head.Seq}} {
		server := wire.Serve(b, proto, limits, nil, func(_ context.Context, c *wire.Conn) error {
			var o Offer
			if err := c.Recv(&o); err != nil {
				return err
			}
			return c.Send(reply{Status: statusPrepared, Pos: lie})
		})
		if err := o.handOver(t, b.ID()); !errors.Is(err, ErrBroken) ||
			phase(t, o.db) != store.PhaseDeciding {
			t.Errorf("Send() = %v with phase %v for a reply at %+v, want ErrBroken and no commit",
				err, phase(t, o.db), lie)
		}
		server.Close()
	}
}
