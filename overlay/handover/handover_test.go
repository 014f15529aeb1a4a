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

	"peerd/overlay/wire"
	"peerd/store"
)

func TestHandover(t *testing.T) {
	a, b := pair(t)
	owner, he := open(t, ""), &heir{db: open(t, "")}
	serve(t, b, he)
	fill(t, owner)
	want := contents(t, owner)
	if err := leave(t, owner, a, b.ID()); err != nil {
		t.Fatal(err)
	}
	same(t, contents(t, he.db), want)
	if p := phase(t, he.db); p != store.PhaseOwned {
		t.Errorf("phase %v", p)
	}
	if b := want["b.test"]; len(b.visits) != 10 || b.learnt != "learned" || len(b.queue) != 2 {
		t.Errorf("handed over were %d visits, %q, %+v", len(b.visits), b.learnt, b.queue)
	}
	// What is queued again here is not queued twice there.
	update(t, he.db, func(tx *store.Tx) error {
		if h, err := tx.Host("b.test"); err != nil || h.DueAt.After(time.UnixMicro(1e15).Add(time.Hour)) || h.DueAt.IsZero() {
			return fmt.Errorf("the host is %+v: %w", h, err)
		}
		due, err := tx.TakeDue("b.test", time.UnixMicro(1e15), 100)
		if err != nil || len(due) != 1 {
			return fmt.Errorf("%d are due: %w", len(due), err)
		}
		if fresh, err := tx.PushAgain("b.test", store.Entry{URL: due[0].URL}); fresh || err != nil {
			return fmt.Errorf("queued twice: %v, %w", fresh, err)
		}
		return nil
	})
}

// Wherever the line breaks, once or again, the subnet is at one peer, whole.
func TestBrokenAnywhere(t *testing.T) {
	a, b := pair(t)
	for _, gentle := range []bool{false, true} {
		done := false
		for n := 1; !done; n++ {
			owner, he := open(t, ""), &heir{db: open(t, "")}
			_, server := serve(t, b, he)
			fill(t, owner)
			want := contents(t, owner)
			c := &cutter{Host: a, left: n, gentle: gentle}
			err := leave(t, owner, c, b.ID())
			done = !c.cut
			what := fmt.Sprintf("cut at %d, gentle %v", n, gentle)
			invariant(t, what, owner, he.db, err)
			begun := time.Now()
			for tries := 0; err != nil; tries++ { // refused while the heir clears up
				// At first a cut one after the other, then a line that holds.
				c.cut, c.left = false, 3+4*tries
				if tries > 3 {
					c.left = 1 << 30
				}
				if time.Since(begun) > 20*time.Second {
					t.Fatalf("%s: never ends: %v", what, err)
				}
				err = leave(t, owner, c, b.ID())
				invariant(t, what, owner, he.db, err)
			}
			server.Close()
			same(t, contents(t, he.db), want)
			if left := contents(t, owner); len(left) > 0 {
				t.Errorf("%s: the owner still has %d hosts", what, len(left))
			}
			if t.Failed() {
				t.Fatal(what)
			}
			_, _ = owner.Close(), he.db.Close()
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

func TestHeirRestarts(t *testing.T) {
	a, b := pair(t)
	owner := open(t, "")
	fill(t, owner)
	want := contents(t, owner)
	dir := t.TempDir()
	for _, n := range []int{5, 7, 9} { // after some chunks
		he := &heir{db: open(t, dir)}
		r := &Receiver{DB: he.db, Heir: he, Check: func(store.URL) error { return nil }}
		// A process that is killed sweeps nothing: take the chunks, and no more.
		in := newIntake(r, Offer{Subnet: subnet, Epoch: 2})
		if err := r.stage(in.o); err != nil {
			t.Fatal(err)
		}
		rec := store.Host{Name: "a.test", Subnet: subnet, Addr: subnet.Addr().Next()}
		if err := in.take(chunk{Host: "a.test", Record: &rec}); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			e := store.Entry{URL: store.URL(fmt.Sprintf("http://a.test/old/%d", i))}
			if err := in.take(chunk{Host: "a.test", Entries: []store.Entry{e}, Seen: []store.Digest{e.URL.Digest()}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := he.db.Close(); err != nil {
			t.Fatal(err)
		}
		he.db = open(t, dir)
		if len(contents(t, he.db)) != 1 {
			t.Fatal("nothing was staged")
		}
		_, s := serve(t, b, he) // sweeps
		if left := contents(t, he.db); len(left) != 0 || phase(t, he.db) != store.PhaseNone {
			t.Errorf("left over: %d hosts, %v", len(left), phase(t, he.db))
		}
		if n == 9 {
			if err := leave(t, owner, a, b.ID()); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if err := he.db.Close(); err != nil {
				t.Fatal(err)
			}
			he.db = open(t, dir)
			serve(t, b, he)
			same(t, contents(t, he.db), want)
		}
		s.Close()
		if err := he.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefused(t *testing.T) {
	a, b := pair(t)
	owner, he := open(t, ""), &heir{db: open(t, ""), refuse: errors.New("no " + strings.Repeat("x", 1000))}
	serve(t, b, he)
	fill(t, owner)
	err := leave(t, owner, a, b.ID())
	if !errors.Is(err, ErrRefused) || len(err.Error()) > 400 {
		t.Errorf("%v", err)
	}
	s := &Sender{Host: a, Protocol: proto, DB: owner}
	for name, o := range map[string]Offer{
		"no subnet":   {Epoch: 2},
		"wide subnet": {Subnet: netip.MustParsePrefix("192.0.0.0/16"), Epoch: 2},
		"first epoch": {Subnet: subnet, Epoch: 1},
		"evidence":    {Subnet: subnet, Epoch: 2, Evidence: make([]byte, maxEvidence+1)},
		"estimations": {Subnet: subnet, Epoch: 2, Estimations: -1},
		"not wanted":  {Subnet: subnet, Epoch: 2},
	} {
		if _, err := s.Send(t.Context(), b.ID(), o, nil); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p := phase(t, he.db); p != store.PhaseNone {
		t.Errorf("something was staged: %v", p)
	}
}

func TestAdoptFails(t *testing.T) {
	a, b := pair(t)
	fail := true
	owner, he := open(t, ""), &heir{db: open(t, "")}
	he.adopt = func() error {
		if fail {
			fail = false
			return errors.New("beaten")
		}
		return nil
	}
	serve(t, b, he)
	fill(t, owner)
	want := contents(t, owner)
	if err := leave(t, owner, a, b.ID()); !errors.Is(err, ErrInDoubt) {
		t.Fatalf("%v", err)
	}
	eventually(t, "asked again until it is done", func() bool { return leave(t, owner, a, b.ID()) == nil })
	same(t, contents(t, he.db), want)
}

// opened is a handover that has got as far as the heir's yes.
func opened(t *testing.T, from, to host.Host, o Offer) *wire.Conn {
	t.Helper()
	c, err := wire.Dial(t.Context(), from, to.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := exchange(c, o, &r); err != nil || r.Verdict != verdictOK {
		t.Fatalf("%+v, %v", r, err)
	}
	return c
}

func TestOneStreamASubnet(t *testing.T) {
	a, b := pair(t)
	owner, he := open(t, ""), &heir{db: open(t, "")}
	serve(t, b, he)
	fill(t, owner)
	c := opened(t, a, b, Offer{Subnet: subnet, Epoch: 2})
	err := leave(t, owner, a, b.ID())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second stream: %v", err)
	}
	elsewhere := opened(t, a, b, Offer{Subnet: other, Epoch: 2})
	elsewhere.Reset()
	c.Reset()
	eventually(t, "the next one is taken", func() bool { return leave(t, owner, a, b.ID()) == nil })
	eventually(t, "the broken one is swept away", func() bool {
		err := he.db.View(func(tx *store.Tx) error { _, err := tx.Subnet(other); return err })
		return errors.Is(err, store.ErrNotFound)
	})
}

func TestStalledSender(t *testing.T) {
	old := limits
	limits.Timeout = 300 * time.Millisecond
	defer func() { limits = old }()
	a, b := pair(t)
	he := &heir{db: open(t, "")}
	_, server := serve(t, b, he)
	defer server.Close() // before limits are as they were
	c := opened(t, a, b, Offer{Subnet: subnet, Epoch: 2})
	defer c.Reset()
	rec := store.Host{Name: "a.test", Subnet: subnet, Addr: subnet.Addr().Next()}
	if err := c.Send(chunk{Host: "a.test", Record: &rec, Entries: []store.Entry{{URL: "http://a.test/"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its rubbish is swept away", func() bool {
		return phase(t, he.db) == store.PhaseNone && len(contents(t, he.db)) == 0
	})
}

// An heir that has not all of it is granted nothing.
func TestNothingIsCommittedUnseen(t *testing.T) {
	a, b := pair(t)
	owner := open(t, "")
	fill(t, owner)
	for _, lie := range []prepared{{}, {Hosts: 3, Entries: 602, Seen: 610, Visits: 10}, {Hosts: 3, Entries: 601, Seen: 611, Visits: 10},
		{Hosts: 3, Entries: 602, Seen: 611, Visits: 9}} {
		server := wire.Serve(b, proto, limits, nil, func(_ context.Context, c *wire.Conn) error {
			var o Offer
			if err := errors.Join(c.Recv(&o), c.Send(reply{Verdict: verdictOK})); err != nil {
				return err
			}
			for {
				var part chunk
				if err := c.Recv(&part); err != nil {
					return err
				}
				if part.End {
					return c.Send(lie)
				}
			}
		})
		if err := leave(t, owner, a, b.ID()); !errors.Is(err, ErrBroken) || phase(t, owner) != store.PhaseDeciding {
			t.Errorf("%+v: %v, %v", lie, err, phase(t, owner))
		}
		server.Close()
	}
}

// Long names, a large seen-set and robots.txt files beyond one frame fit
// through a store with the smallest memtable.
func TestLargeHost(t *testing.T) {
	a, b := pair(t)
	owner, he := open(t, t.TempDir()), &heir{db: open(t, t.TempDir())}
	serve(t, b, he)
	name := strings.Repeat(strings.Repeat("n", 62)+".", 4) + "n"
	update(t, owner, func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: subnet, Addr: subnet.Addr().Next()})
		return nil
	})
	for i := range 20 {
		update(t, owner, func(tx *store.Tx) error {
			var ds []store.Digest
			for j := range 1000 {
				ds = append(ds, store.URL(fmt.Sprint(i, j)).Digest())
			}
			return errors.Join(tx.Import(name, nil, ds), tx.PutRobots(fmt.Sprintf("http://%s:%d", name, i), make([]byte, 400<<10)))
		})
	}
	s := &Sender{Host: a, Protocol: proto, DB: owner}
	if _, err := s.Send(t.Context(), b.ID(), Offer{Subnet: subnet, Epoch: 2}, func() ([]byte, error) { return []byte("grant"), nil }); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := he.db.View(func(tx *store.Tx) error {
		return tx.SeenDigests(name, nil, func(store.Digest) (bool, error) { n++; return true, nil })
	})
	if err != nil || n != 20_000 {
		t.Errorf("%d digests, %v", n, err)
	}
}
