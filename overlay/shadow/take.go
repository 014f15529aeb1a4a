package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

var (
	// errBad is wrapped by what is said of something that no honest owner sends.
	errBad = errors.New("not what an owner sends")
	// errFull says that no more is taken.
	errFull = errors.New("no room for more")
	// errMissing says that something does not follow on what is here.
	errMissing = errors.New("something is missing")
)

// Bounds of what a host's record may say.
const (
	maxCount = 1 << 40
	maxRest  = 24 * time.Hour
	maxDepth = 1<<16 - 1
	maxTries = 255
	maxHops  = 255
)

// Bounds of one transaction.
const (
	joinOps   = 1000
	joinBytes = 128 << 10
)

// attempt changes a copy that is open on a link, and acknowledges that, or ends
// it there and says why. What comes for a copy that is not open is left alone:
// its owner has been told.
func (s *Service) attempt(in *inlink, p netip.Prefix, fn func(*replica) error) {
	defer s.enter(p)()
	s.mu.Lock()
	r := s.held[p]
	open := r != nil && r.in == in
	s.mu.Unlock()
	if !open {
		return
	}
	err := fn(r)
	if err == nil {
		err = s.inStep(in, r)
	}
	if err == nil {
		s.mu.Lock()
		in.dirty[p] = ack{Subnet: p, Pos: r.place.Pos, Whole: r.place.whole()}
		s.mu.Unlock()
		return
	}
	h := have{Subnet: p, Verdict: verdictLater, Why: clip(err.Error())}
	switch {
	case errors.Is(err, errMissing):
		h.Verdict = verdictAgain
	case errors.Is(err, errBad), errors.Is(err, errFull), errors.Is(err, store.ErrBadOps), errors.Is(err, store.ErrElsewhere):
		h.Verdict = verdictRefused
	default:
		s.log.Error("copy not written", "subnet", p, "err", err)
	}
	s.mu.Lock()
	h.Turn = r.turn
	r.close()
	delete(in.dirty, p)
	s.mu.Unlock()
	s.outOfStep(r)
	s.log.Info("copy refused", "subnet", p, "owner", in.owner, "err", err)
	s.say(in, h)
}

// takeSnap takes in a piece of a snapshot.
func (s *Service) takeSnap(r *replica, x *snap) error {
	at := r.place
	switch {
	case x.Start.Log == 0 || x.Start.Seq > maxSeq || len(x.Next) > maxCursor || x.Until > maxSeq:
		return fmt.Errorf("%w: a piece out of range", errBad)
	case len(x.After) == 0:
		at = place{Pos: x.Start, Size: at.Size}
	case at.Fresh || at.Pos != x.Start || !slices.Equal(at.At, x.After):
		return fmt.Errorf("%w: a piece elsewhere", errMissing)
	}
	ops, n, err := s.checked(r, x.Ops)
	if err != nil {
		return err
	}
	at.At, at.Fresh = x.Next, false
	at.Size, at.Begun = at.Size.plus(n), at.Begun.plus(n)
	if len(x.Next) == 0 {
		at.Until, at.Size, at.Begun = x.Until, at.Begun, size{}
	}
	return s.absorb(r, ops, at)
}

// takeTail takes in records of the log, as many in one transaction as go in.
func (s *Service) takeTail(r *replica, t *tail) error {
	at := r.place
	if len(t.Records) > maxRecords || t.First == 0 || t.First > maxSeq {
		return fmt.Errorf("%w: records out of range", errBad)
	}
	if t.Log != at.Pos.Log || at.Fresh || len(at.At) > 0 || t.First > at.Pos.Seq+1 {
		return fmt.Errorf("%w: records from %d on, here is %d", errMissing, t.First, at.Pos.Seq)
	}
	known := min(at.Pos.Seq+1-t.First, uint64(len(t.Records)))
	var ops []store.Op
	bytes := int64(0)
	for _, raw := range t.Records[known:] {
		next, n, err := s.checked(r, raw)
		if err != nil {
			return err
		}
		// What clears goes by itself: it leaves what stands in the same list.
		alone := clears(next)
		if len(ops) > 0 && (alone || len(ops)+len(next) > joinOps || bytes+n.Bytes > joinBytes) {
			if err := s.absorb(r, ops, at); err != nil {
				return err
			}
			ops, bytes = nil, 0
		}
		at.Pos.Seq++
		at.Size, bytes = at.Size.plus(n), bytes+n.Bytes
		ops = append(ops, next...)
		if alone {
			if err := s.absorb(r, ops, at); err != nil {
				return err
			}
			ops, bytes = nil, 0
		}
	}
	if at.Pos == r.place.Pos {
		return nil
	}
	return s.absorb(r, ops, at)
}

func clears(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(o store.Op) bool {
		switch o.Kind {
		case store.OpClear, store.OpClearHosts, store.OpClearLinks, store.OpHostGone:
			return true
		}
		return false
	})
}

// absorb changes the copy and its place in one transaction.
func (s *Service) absorb(r *replica, ops []store.Op, at place) error {
	err := s.cfg.DB.Absorb(r.subnet, ops, func(tx *store.Tx) error { return putPlace(tx, r.subnet, at) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(r.owner, at.Size.minus(r.place.Size))
	r.place = at
	return nil
}

// checked decodes a list of changes, checks each, and says how much they may
// add. What is too large of one that can do without is left out.
func (s *Service) checked(r *replica, raw []byte) (ops []store.Op, n size, err error) {
	if len(raw) > store.MaxTailRecord {
		return nil, n, fmt.Errorf("%w: a record of %d bytes", errBad, len(raw))
	}
	if ops, err = store.DecodeOps(raw); err != nil {
		return nil, n, err
	}
	now := time.Now()
	kept := ops[:0]
	for i := range ops {
		o := &ops[i]
		if err := s.check(r.subnet, o, now); err != nil {
			return nil, n, err
		}
		if o.Kind == store.OpState && len(o.Raw) > maxState || o.Kind == store.OpRobots && len(o.Raw) > maxRobots {
			continue // learned again
		}
		n = n.plus(weight(o))
		kept = append(kept, *o)
	}
	return kept, n, s.room(r, n)
}

// room says whether so much more may come.
func (s *Service) room(r *replica, n size) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, theirs := s.total.plus(n), s.usage[r.owner].plus(n)
	urls, bytes := float64(s.cfg.MaxURLs)*s.cfg.OwnerShare, float64(s.cfg.MaxBytes)*s.cfg.OwnerShare
	if all.URLs > s.cfg.MaxURLs || all.Bytes > s.cfg.MaxBytes || float64(theirs.URLs) > urls || float64(theirs.Bytes) > bytes {
		return errFull
	}
	return nil
}

// weight is what a change adds at most.
func weight(o *store.Op) size {
	n := size{Bytes: int64(64 + len(o.Name) + len(o.Raw))}
	switch o.Kind {
	case store.OpHost, store.OpSeen:
		n.URLs = 1
	case store.OpEntry:
		if o.Seen {
			n.URLs = 1
		}
		n.Bytes += int64(len(o.Entry.URL))
	case store.OpVisit:
		n.Bytes += int64(len(o.Visit.URL) + len(o.Visit.History))
	case store.OpOutlink:
		n.URLs = 1
		n.Bytes += int64(len(o.Pending.URL))
	case store.OpState, store.OpRobots, store.OpAgain, store.OpDue:
	default:
		return size{}
	}
	return n
}

// check looks at one change, and mends what clocks and counts may be wrong.
func (s *Service) check(p netip.Prefix, o *store.Op, now time.Time) error {
	if u, ok := o.URL(); ok {
		if len(u) > maxURL {
			return fmt.Errorf("%w: a url of %d bytes", errBad, len(u))
		}
		if err := s.cfg.Check(u); err != nil {
			return fmt.Errorf("%w: %.100q: %w", errBad, u, err)
		}
	}
	switch o.Kind {
	case store.OpHost:
		return checkHost(p, o.Rec, now)
	case store.OpEntry:
		e := o.Entry
		e.Depth, e.Tries, e.Hops = min(max(e.Depth, 0), maxDepth), min(max(e.Tries, 0), maxTries), min(max(e.Hops, 0), maxHops)
		e.Kind &= store.KindSitemap | store.KindRevisit
	case store.OpVisit:
		if len(o.Visit.History) > maxHistory {
			return fmt.Errorf("%w: a history of %d bytes", errBad, len(o.Visit.History))
		}
		o.Visit.Depth = min(max(o.Visit.Depth, 0), maxDepth)
		o.Visit.Kind &= store.KindSitemap
	case store.OpOutlink:
		x := o.Pending
		x.Depth, x.Hops = min(max(x.Depth, 0), maxDepth), min(max(x.Hops, 0), maxHops)
		x.Kind &= store.KindSitemap
		if x.Found.After(now) {
			x.Found = now
		}
	}
	return nil
}

func checkHost(p netip.Prefix, h *store.Host, now time.Time) error {
	h.Addr = h.Addr.Unmap()
	h.Assigned = true // should it ever be ours
	if h.Name == "" || len(h.Name) > maxName || h.Subnet != p || store.SubnetOf(h.Addr) != p {
		return fmt.Errorf("%w: host %.100q does not belong here", errBad, h.Name)
	}
	h.Pending, h.Known = min(max(h.Pending, 0), maxCount), min(max(h.Known, 0), maxCount)
	if h.NextAt.Sub(now) > maxRest {
		h.NextAt = now.Add(maxRest)
	}
	if today := store.DayOf(now); h.Day > today+1 {
		h.Day, h.DayCount = 0, 0
	}
	h.DayCount = max(h.DayCount, 0)
	return nil
}
