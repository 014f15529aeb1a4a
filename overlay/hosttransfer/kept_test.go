package hosttransfer

import (
	"errors"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store"
)

// keepCopy makes s a replica of the host's old home, which belongs to owner, with n URLs of the
// host in it.
func (s *side) keepCopy(owner peer.ID, n int) {
	s.t.Helper()
	s.fill(n)
	err := s.DB.Update(func(tx *store.Tx) error {
		return errors.Join(
			tx.PutSubnet(store.Subnet{Prefix: from, Phase: store.PhaseReplica,
				Owner: owner.String()}),
			tx.PutSubnet(store.Subnet{Prefix: to, Phase: store.PhaseOwned}))
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// kept returns how many values are kept beside copies.
func (s *side) kept() (n int) {
	s.t.Helper()
	err := s.DB.View(func(tx *store.Tx) error {
		return tx.EachData(keptSpace, func(string, []byte) (bool, error) { n++; return true, nil })
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Until all of a host has come, a copy of its old home that the receiver keeps has it as it was.
func TestCopyOutlivesBrokenTransfer(t *testing.T) {
	a, b := newSide(t), newSide(t)
	know(a.Host, b.Host)
	a.fill(1200)
	b.keepCopy(a.Host.ID(), 900) // it is a little behind
	want, before := a.holds(), b.holds()
	want.home = to
	o := Offer{Host: name, Addr: addr, Record: record(t, name)}
	for frames := range 12 {
		err := a.transferUpTo(b, o, 150*frames)
		if err == nil { // then the owner deletes the host, and the copy is told
			left := []store.Op{{Kind: store.OpDeleteHost, Name: name}}
			if err := b.DB.Apply(from, left, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := b.holds()
		switch {
		case err == nil && got != want:
			t.Errorf("%d: arrived %+v, want %+v", frames, got, want)
		case err != nil && got != before:
			t.Errorf("%d: the copy has %+v, want %+v", frames, got, before)
		}
		if n := b.kept(); n != 0 {
			t.Errorf("%d: %d values are left", frames, n)
		}
		if err == nil {
			return
		}
	}
	t.Error("it never arrived")
}

// A host that is here in a subnet of another peer's, or of the receiver's own, is not replaced.
func TestHostOfAnotherIsRefused(t *testing.T) {
	_, other := overlaytest.Identity(4)
	for what, rec := range map[string]store.Subnet{
		"copy of another owner": {Phase: store.PhaseReplica, Owner: other.String()},
		"own subnet":            {Phase: store.PhaseOwned},
		"copy being deleted":    {Phase: store.PhaseStaged},
	} {
		a, b := newSide(t), newSide(t)
		know(a.Host, b.Host)
		b.keepCopy(a.Host.ID(), 100)
		rec.Prefix = from
		if err := b.DB.Update(func(tx *store.Tx) error { return tx.PutSubnet(rec) }); err != nil {
			t.Fatal(err)
		}
		before := b.holds()
		server := b.Serve()
		err := a.Transfer(t.Context(), b.Host.ID(),
			Offer{Host: name, Addr: addr, Record: record(t, name)})
		server.Close()
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: Transfer() = %v, want ErrRefused", what, err)
		}
		if got := b.holds(); got != before || b.open.Load() != 0 {
			t.Errorf("%s: holds %+v, want %+v; %d subnets are held", what, got, before,
				b.open.Load())
		}
	}
}

// A copy that comes while its host is on its way here is not changed by what still arrives.
func TestCopyComesMeanwhile(t *testing.T) {
	b := newSide(t)
	_, id := overlaytest.Identity(4)
	in := &intake{s: b.Service, o: Offer{Host: name, Addr: addr}, from: id, subnet: to}
	if err := in.begin(); err != nil {
		t.Fatal(err)
	}
	b.keepCopy(id, 10)
	before := b.holds()
	if err := in.store(chunk{Seen: []store.Digest{url(99).Digest()}}); !errors.Is(err,
		errElsewhere) {
		t.Errorf("store() = %v, want errElsewhere", err)
	}
	if err := in.end(t.Context()); !errors.Is(err, errElsewhere) {
		t.Errorf("end() = %v, want errElsewhere", err)
	}
	if err := in.undo(); err != nil {
		t.Fatal(err)
	}
	if got := b.holds(); got != before {
		t.Errorf("the copy has %+v, want %+v", got, before)
	}
}

// A crash before the last chunk leaves the copy as it was; after it, the next start, or the next
// try, ends what was begun.
func TestCrashBesideCopy(t *testing.T) {
	_, id := overlaytest.Identity(4)
	for what, c := range map[string]struct {
		complete, begun, retried bool
		lost                     bool // the new home has left
		queued                   int
	}{
		"incomplete":          {queued: 66},
		"complete":            {complete: true, queued: 1},
		"replacing":           {complete: true, begun: true, queued: 1},
		"retried":             {complete: true, begun: true, retried: true, queued: 1},
		"new home is another": {complete: true, lost: true, queued: 66},
	} {
		b := newSide(t)
		b.keepCopy(id, 100)
		o := Offer{Host: name, Addr: addr}
		in := &intake{s: b.Service, o: o, from: id, subnet: to, copied: true}
		err := in.keep(chunk{Entries: []store.Entry{{URL: url(1000)}}})
		if err == nil && c.complete {
			err = in.keepOffer()
		}
		if err == nil && c.begun {
			err = in.begin()
		}
		if err == nil && c.lost {
			err = b.DB.Update(func(tx *store.Tx) error { return tx.DeleteSubnet(to) })
		}
		again := &intake{s: b.Service, o: o, from: id, subnet: to}
		switch {
		case err != nil:
		case c.retried:
			if err = again.look(); err == nil {
				err = again.take(t.Context(), nil)
			}
		default:
			err = b.Sweep()
		}
		if err != nil {
			t.Fatal(what, err)
		}
		home := from
		if c.queued == 1 {
			home = to
		}
		if got := b.holds(); got.queued != c.queued || got.home != home {
			t.Errorf("%s: holds %+v, want %d queued in %v", what, got, c.queued, home)
		}
		if n := b.kept(); n != 0 {
			t.Errorf("%s: %d values are left", what, n)
		}
	}
}

// The largest chunk that is received can be kept.
func TestLargestChunkIsKept(t *testing.T) {
	b := newSide(t)
	in := &intake{s: b.Service, o: Offer{Host: name, Addr: addr}, subnet: to}
	if err := in.keep(chunk{State: make([]byte, limits.MaxMsg)}); err != nil {
		t.Error(err)
	}
}
