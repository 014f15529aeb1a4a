package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// replica is a copy of another peer's subnet. Its fields are guarded by
// Service.mu and changed only by who has entered the subnet (Service.enter).
type replica struct {
	subnet netip.Prefix
	owner  peer.ID
	epoch  uint64
	lease  []byte
	place  place

	in    *inlink // on which it is open; nil: on none
	turn  uint64  // of the Open
	heard time.Time
	// current says that what changes has begun to come on in; counted is until when the
	// owner counted on the copy, as far as is known once in has ended.
	current bool
	counted time.Time
	since   time.Time // kept here, or promised to be, since
}

// place is how far a copy is. It is kept apart from the subnet's record, whose
// lease and evidence are large, and written with every change of the copy.
type place struct {
	Pos   TailPos `cbor:"1,keyasint"`           // Log is 0 for a copy of nothing
	At    []byte  `cbor:"2,keyasint,omitempty"` // of the snapshot's next piece; empty: it is over
	Until uint64  `cbor:"3,keyasint,omitempty"` // what the snapshot may hold parts of
	Size  size    `cbor:"4,keyasint"`           // an upper bound
	Begun size    `cbor:"5,keyasint"`           // what the present snapshot has brought
	Fresh bool    `cbor:"6,keyasint,omitempty"` // nothing of the snapshot is here yet
	Link  uint64  `cbor:"7,keyasint,omitempty"` // on which it was in step last; 0: it fell out of step
}

// size bounds what lies here of others.
type size struct {
	URLs  int64 `cbor:"1,keyasint"`
	Bytes int64 `cbor:"2,keyasint"`
}

func (a size) plus(b size) size  { return size{a.URLs + b.URLs, a.Bytes + b.Bytes} }
func (a size) minus(b size) size { return size{a.URLs - b.URLs, a.Bytes - b.Bytes} }

// whole says that the copy has no gap.
func (x place) whole() bool {
	return x.Pos.Log != 0 && len(x.At) == 0 && !x.Fresh && x.Pos.Seq >= x.Until
}

// Held is a copy of a subnet that this peer keeps.
type Held struct {
	Subnet netip.Prefix
	Owner  peer.ID
	Epoch  uint64
	// Complete says that the copy is, or was, the owner's state at Pos.
	Complete bool
	Pos      TailPos
	// Live says that the owner tells us now what changes.
	Live bool
	// Heard is when the owner was last heard on the link while it told us what
	// changes here; zero if that has not been since the start of this process.
	Heard time.Time
	// Counted is until when its owner, as far as is known, counted on this copy, by
	// the clock of this process; zero if nothing is known. A copy whose owner was
	// heard much later than this by others may have been replaced.
	Counted time.Time
	// Panel and Lease are the owner's, sealed, as it showed them last.
	Panel []byte
	Lease []byte
}

// Held returns the copies that this peer keeps.
func (s *Service) Held() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Held, 0, len(s.held))
	for _, r := range s.held {
		all = append(all, s.public(r))
	}
	return all
}

// Copy returns the copy of one subnet, false if there is none.
func (s *Service) Copy(p netip.Prefix) (Held, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.held[p]
	if r == nil {
		return Held{}, false
	}
	return s.public(r), true
}

func (s *Service) public(r *replica) Held {
	h := Held{
		Subnet: r.subnet, Owner: r.owner, Epoch: r.epoch, Complete: r.place.whole(), Pos: r.place.Pos,
		Live: r.in != nil, Heard: r.heard, Counted: r.counted, Panel: s.panels[r.owner], Lease: r.lease,
	}
	if r.in != nil {
		h.Heard = r.in.heard
		if r.current {
			h.Counted = later(r.counted, r.in.counted)
		}
	}
	return h
}

// enter waits until nobody else changes a subnet's copy, and keeps others from
// it until the function that it returns is called.
func (s *Service) enter(p netip.Prefix) (leave func()) {
	for {
		s.mu.Lock()
		c, taken := s.busy[p]
		if !taken {
			c = make(chan struct{})
			s.busy[p] = c
		}
		s.mu.Unlock()
		if !taken {
			return func() {
				s.mu.Lock()
				delete(s.busy, p)
				s.mu.Unlock()
				close(c)
			}
		}
		<-c
	}
}

// Promote ends a copy because the subnet is ours from now on: nothing of it is
// taken from anybody any more. What lies on the disk is complete up to the
// position that it returns, which the subnet's record has too; the caller makes
// the record that of an owned subnet. Until it does, a restart finds the copy again.
func (s *Service) Promote(p netip.Prefix) (TailPos, error) {
	var at TailPos
	err := s.PromoteBy(p, func(pos TailPos) error {
		at = pos
		err := s.cfg.DB.Update(func(tx *store.Tx) error {
			rec, err := tx.Subnet(p)
			if err != nil {
				return err
			}
			rec.Log, rec.Seq, rec.Cursor = pos.Log, pos.Seq, nil
			return tx.PutSubnet(rec)
		})
		if err != nil {
			return fmt.Errorf("shadow: %w", err)
		}
		return nil
	})
	return at, err
}

// PromoteBy is Promote for a caller whose fn makes the subnet's record that of an
// owned one. Nothing changes the copy meanwhile; if fn fails it stays a copy, which Forget
// does not touch once fn has written that record. fn
// must not call Promote, Forget or Demote for the same subnet.
func (s *Service) PromoteBy(p netip.Prefix, fn func(pos TailPos) error) error {
	defer s.enter(p)()
	s.mu.Lock()
	r := s.held[p]
	var at place
	if r != nil {
		at = r.place
	}
	s.mu.Unlock()
	switch {
	case r == nil:
		return ErrNotHeld
	case !at.whole():
		return ErrIncomplete
	}
	if err := fn(at.Pos); err != nil {
		return err
	}
	s.drop(r)
	return nil
}

// errOwned keeps a copy from being swept away whose record is that of a subnet of
// ours: its promotion failed after that was written.
var errOwned = errors.New("the copy has become a subnet of ours")

// Forget ends a copy that is of no use any more. What lies on the disk is swept
// away while Run runs.
func (s *Service) Forget(p netip.Prefix) error {
	return s.forgetIf(p, func(*replica) bool { return true })
}

// forgetIf is Forget if ok says so, with mu held.
func (s *Service) forgetIf(p netip.Prefix, ok func(*replica) bool) error {
	defer s.enter(p)()
	s.mu.Lock()
	r := s.held[p]
	if r != nil && !ok(r) {
		r = nil
	}
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	err := s.cfg.DB.Update(func(tx *store.Tx) error {
		switch rec, err := tx.Subnet(p); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return err
		case rec.Phase != store.PhaseShadow && rec.Phase != store.PhaseStaged:
			return fmt.Errorf("%w: %v is %v", errOwned, p, rec.Phase) // a PromoteBy failed late
		}
		return tx.PutSubnet(store.Subnet{Prefix: p, Phase: store.PhaseStaged, Epoch: r.epoch, Since: time.Now()})
	})
	if err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	s.drop(r)
	s.mu.Lock()
	s.wipes = append(s.wipes, p)
	s.mu.Unlock()
	poke(s.rubbish)
	return nil
}

// drop takes a copy out of what is held. An owner who still tells it what
// changes is told.
func (s *Service) drop(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[r.subnet] == r {
		if in := r.in; in != nil {
			in.haves = append(in.haves, have{Subnet: r.subnet, Turn: r.turn, Verdict: verdictRefused, Why: "it is no copy any more"})
			delete(in.dirty, r.subnet)
			poke(in.kick)
		}
		r.close()
		delete(s.held, r.subnet)
		s.charge(r.owner, size{}.minus(r.place.Size))
	}
}

// charge adds to what is kept for an owner. The caller holds mu.
func (s *Service) charge(owner peer.ID, n size) {
	s.total = s.total.plus(n)
	if u := s.usage[owner].plus(n); u == (size{}) {
		delete(s.usage, owner)
	} else {
		s.usage[owner] = u
	}
}

// Demote makes a subnet that was ours, and has gone to another peer by the lease
// given, a copy at the end of our log, which the new owner continues if its own
// has that as its base. Our followers of it are told that they are none any more;
// the log is forgotten.
func (s *Service) Demote(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error {
	defer s.enter(p)()
	head, _, ok := s.cfg.DB.TailHead(p)
	now := time.Now()
	rec := store.Subnet{
		Prefix: p, Phase: store.PhaseShadow, Lease: lease, Epoch: epoch, Since: now,
		Log: head.Log, Seq: head.Seq, From: to.String(),
	}
	at := place{Pos: head}
	if !ok {
		rec.Phase = store.PhaseStaged
	}
	err := s.cfg.DB.Update(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(p)
		if err != nil {
			return err
		}
		at.Size = size{}
		for _, h := range hosts {
			at.Size = at.Size.plus(size{h.Known, h.Known * 300})
		}
		return errors.Join(putPlace(tx, p, at), tx.PutSubnet(rec))
	})
	if err == nil {
		err = s.Leave(p)
	}
	if err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !ok {
		s.wipes = append(s.wipes, p)
		poke(s.rubbish)
		return nil
	}
	s.held[p] = &replica{subnet: p, owner: to, epoch: epoch, lease: lease, place: at, since: now}
	s.charge(to, at.Size)
	return nil
}

func placeKey(p netip.Prefix) string { return "shadow/place/" + p.String() }
func panelKey(owner peer.ID) string  { return "shadow/panel/" + owner.String() }

func putPlace(tx *store.Tx, p netip.Prefix, x place) error {
	b, err := cbor.Marshal(x)
	if err != nil {
		return err
	}
	return tx.PutData(placeKey(p), b)
}

// load finds the copies on the disk, and what is to be swept.
func (s *Service) load() error {
	return s.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(rec store.Subnet) error {
			switch rec.Phase {
			case store.PhaseStaged:
				s.wipes = append(s.wipes, rec.Prefix)
			case store.PhaseShadow:
				owner, err := peer.Decode(rec.From)
				if err != nil {
					return fmt.Errorf("copy of %v: %w", rec.Prefix, err)
				}
				r := &replica{
					subnet: rec.Prefix, owner: owner, epoch: rec.Epoch, lease: rec.Lease, since: time.Now(),
				}
				b, err := tx.Data(placeKey(rec.Prefix))
				if err == nil {
					err = cbor.Unmarshal(b, &r.place)
				}
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					return err
				}
				if s.panels[owner] == nil {
					if s.panels[owner], err = tx.Data(panelKey(owner)); err != nil && !errors.Is(err, store.ErrNotFound) {
						return err
					}
				}
				if r.counted, err = s.recall(tx, r); err != nil {
					return err
				}
				s.held[rec.Prefix] = r
				s.charge(r.owner, r.place.Size)
			}
			return nil
		})
	})
}
