package replica

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

var (
	// errMalformed is wrapped by errors about frames that no honest owner sends.
	errMalformed = errors.New("malformed frame")
	// errQuota means that a quota is used up.
	errQuota = errors.New("quota exceeded")
	// errGap means that a frame does not continue the copy.
	errGap = errors.New("gap in the copy")
)

// Bounds of a host's record.
const (
	maxCount    = 1 << 40
	maxCooldown = 24 * time.Hour
)

// Bounds of one transaction.
const (
	maxTxOps   = 1000
	maxTxBytes = 128 << 10
)

// applyFrame changes a copy that is open on the link and acknowledges the change, or ends
// the copy there with the reason. Frames for copies that are not open are ignored,
// because their owner has been told.
func (cs *copies) applyFrame(in *replicaLink, p netip.Prefix, fn func(*heldCopy) error) {
	defer cs.locks.lock(p)()
	cs.mu.Lock()
	r := cs.held[p]
	open := r != nil && r.link == in
	cs.mu.Unlock()
	if !open {
		return
	}
	err := fn(r)
	if err == nil {
		err = cs.markCurrent(in, r)
	}
	if err == nil {
		in.ack(ack{Subnet: p, Pos: r.progress.Pos, Complete: r.progress.complete()})
		return
	}
	h := openReply{Subnet: p, Status: statusLater, Reason: clip(err.Error())}
	switch {
	case errors.Is(err, errGap):
		h.Status = statusReopen
	case errors.Is(err, errMalformed), errors.Is(err, errQuota),
		errors.Is(err, store.ErrInvalidOps), errors.Is(err, store.ErrHostConflict):
		h.Status = statusRefused
	default:
		cs.cfg.Logger.Error("failed to write copy", "subnet", p, "err", err)
	}
	cs.cfg.Logger.Info("refused copy", "subnet", p, "owner", in.owner, "err", err)
	cs.end(in, r, h)
}

// end ends a copy on its link with a reply. The caller has locked the subnet.
func (cs *copies) end(in *replicaLink, r *heldCopy, h openReply) {
	cs.mu.Lock()
	h.ID = r.openID
	r.detach()
	in.dropAck(r.subnet)
	cs.mu.Unlock()
	cs.markOutdated(r)
	in.reply(h)
}

// applyPiece applies a piece of a snapshot.
func (cs *copies) applyPiece(r *heldCopy, x *snapshotPiece) error {
	at := r.progress
	switch {
	case x.Start.Log == 0 || x.Start.Seq > maxSeq || len(x.Next) > maxCursor || x.Until > maxSeq:
		return fmt.Errorf("%w: a piece is out of range", errMalformed)
	case len(x.After) == 0:
		at = copyProgress{Pos: x.Start, Size: at.Size, Robots: at.Robots}
	case at.Unstarted || at.Pos != x.Start || !slices.Equal(at.Cursor, x.After):
		return fmt.Errorf("%w: a piece does not follow", errGap)
	}
	ops, n, err := cs.decode(r, x.Ops)
	if err != nil {
		return err
	}
	at.Cursor, at.Unstarted = x.Next, false
	at.Partial = at.Partial || !store.Covers(x.After, x.Next, ops)
	files := robotsUsage(ops)
	at.Size, at.Robots = at.Size.plus(n), at.Robots.plus(files)
	at.SnapshotSize = at.SnapshotSize.plus(n.minus(files))
	if len(x.Next) == 0 {
		if !at.Partial {
			at.Size = at.SnapshotSize.plus(at.Robots)
		}
		at.Until, at.SnapshotSize, at.Partial = x.Until, usage{}, false
	}
	return cs.write(r, ops, at)
}

// applyLog applies log records, in as few transactions as their bounds allow.
func (cs *copies) applyLog(r *heldCopy, t *logRecords) error {
	at := r.progress
	if len(t.Records) > maxRecords || t.First == 0 || t.First > maxSeq {
		return fmt.Errorf("%w: records are out of range", errMalformed)
	}
	if t.Log != at.Pos.Log || at.Unstarted || len(at.Cursor) > 0 || t.First > at.Pos.Seq+1 {
		return fmt.Errorf("%w: records from %d, the copy is at %d", errGap, t.First, at.Pos.Seq)
	}
	if err := t.putEvidence(cs.cfg.DB, r.subnet); err != nil {
		return err
	}
	known := min(at.Pos.Seq+1-t.First, uint64(len(t.Records)))
	var ops []store.Op
	bytes := int64(0)
	for _, raw := range t.Records[known:] {
		next, n, err := cs.decode(r, raw)
		if err != nil {
			return err
		}
		// Records that clear need their own transaction: clearing does not remove what the
		// same list adds.
		alone := clears(next)
		if len(ops) > 0 && (alone || len(ops)+len(next) > maxTxOps || bytes+n.Bytes > maxTxBytes) {
			if err := cs.write(r, ops, at); err != nil {
				return err
			}
			ops, bytes = nil, 0
		}
		at.Pos.Seq++
		at.Size, bytes = at.Size.plus(n), bytes+n.Bytes
		at.Robots = at.Robots.plus(robotsUsage(next))
		ops = append(ops, next...)
		if alone {
			if err := cs.write(r, ops, at); err != nil {
				return err
			}
			ops, bytes = nil, 0
		}
	}
	if at.Pos == r.progress.Pos {
		return nil
	}
	return cs.write(r, ops, at)
}

// putEvidence writes the evidence that came with log records.
func (t *logRecords) putEvidence(db *store.DB, p netip.Prefix) error {
	switch {
	case len(t.Evidence) > maxEvidence || t.Estimations < 0:
		return fmt.Errorf("%w: evidence is out of range", errMalformed)
	case len(t.Evidence) == 0:
		return nil
	}
	return db.Update(func(tx *store.Tx) error {
		rec, err := tx.Subnet(p)
		if err != nil || rec.Phase != store.PhaseReplica {
			return err
		}
		rec.Evidence, rec.Estimations = t.Evidence, t.Estimations
		return tx.PutSubnet(rec)
	})
}

func clears(ops []store.Op) bool {
	return slices.ContainsFunc(ops, func(o store.Op) bool {
		switch o.Kind {
		case store.OpClear, store.OpClearHosts, store.OpClearOutlinks, store.OpDeleteHost:
			return true
		}
		return false
	})
}

// write changes the copy and its progress in one transaction.
func (cs *copies) write(r *heldCopy, ops []store.Op, at copyProgress) error {
	known := at.Omitted
	err := cs.cfg.DB.Apply(r.subnet, ops, func(tx *store.Tx) (err error) {
		if at.Omitted, err = withOmitted(tx, r.subnet, ops, known); err != nil {
			return err
		}
		return putProgress(tx, r.subnet, at)
	})
	if err != nil {
		return err
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.addUsage(r.owner, at.Size.minus(r.progress.Size))
	r.progress = at
	return nil
}

// decode decodes a list of changes, checks each, and returns how much they may add.
// Values that are too large are left out if they can be learned again.
func (cs *copies) decode(r *heldCopy, raw []byte) (ops []store.Op, n usage, err error) {
	if len(raw) > store.MaxLogRecord {
		return nil, n, fmt.Errorf("%w: a record of %d bytes", errMalformed, len(raw))
	}
	if ops, err = store.DecodeOps(raw); err != nil {
		return nil, n, err
	}
	now := time.Now()
	kept := ops[:0]
	for i := range ops {
		o := &ops[i]
		if err := checkOp(r.subnet, o, now, cs.cfg.URLs.Check); err != nil {
			return nil, n, err
		}
		if o.Kind == store.OpState && len(o.Raw) > maxState ||
			o.Kind == store.OpRobots && len(o.Raw) > maxRobots {
			continue
		}
		n = n.plus(maxUsage(o))
		kept = append(kept, *o)
	}
	return kept, n, cs.checkQuota(r, n)
}

// checkQuota returns an error if n more is too much.
func (cs *copies) checkQuota(r *heldCopy, n usage) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all, theirs := cs.total.plus(n), cs.usage[r.owner].plus(n)
	if all.URLs > cs.cfg.MaxURLs || all.Bytes > cs.cfg.MaxBytes ||
		float64(theirs.URLs) > ownerShare*float64(cs.cfg.MaxURLs) ||
		float64(theirs.Bytes) > ownerShare*float64(cs.cfg.MaxBytes) {
		return errQuota
	}
	return nil
}

// maxUsage returns an upper bound of what a change adds.
func maxUsage(o *store.Op) usage {
	n := usage{Bytes: int64(64 + len(o.Name) + len(o.Raw))}
	switch o.Kind {
	case store.OpHost, store.OpSeen:
		n.URLs = 1
	case store.OpEntry:
		if o.Seen {
			n.URLs = 1
		}
		n.Bytes += int64(len(o.Entry.URL))
	case store.OpGivenUp:
		n.Bytes += int64(len(o.GivenUp.URL) + len(o.GivenUp.Error))
	case store.OpVisit:
		n.Bytes += int64(len(o.Visit.URL) + len(o.Visit.History))
	case store.OpOutlink:
		n.URLs = 1
		n.Bytes += int64(len(o.Pending.URL))
	case store.OpState, store.OpRobots, store.OpRevisit, store.OpDue:
	default:
		return usage{}
	}
	return n
}

// robotsUsage returns what the robots.txt files of some changes add.
func robotsUsage(ops []store.Op) (n usage) {
	for i := range ops {
		if ops[i].Kind == store.OpRobots {
			n = n.plus(maxUsage(&ops[i]))
		}
	}
	return n
}

// checkOp validates one change, its URL by checkURL, and corrects times and counts that may be
// wrong.
func checkOp(
	p netip.Prefix, o *store.Op, now time.Time, checkURL func(store.URL) error,
) error {
	if u, ok := o.URL(); ok {
		if len(u) > maxURL {
			return fmt.Errorf("%w: a URL of %d bytes", errMalformed, len(u))
		}
		if err := checkURL(u); err != nil {
			return fmt.Errorf("%w: %.100q: %w", errMalformed, u, err)
		}
	}
	switch o.Kind {
	case store.OpHost:
		return checkHost(p, o.Rec, now)
	case store.OpEntry:
		o.Entry.Limit(now)
	case store.OpVisit:
		if len(o.Visit.History) > maxHistory {
			return fmt.Errorf("%w: a history of %d bytes", errMalformed, len(o.Visit.History))
		}
		o.Visit.Limit(now)
	case store.OpGivenUp:
		o.GivenUp.Limit(now)
	case store.OpOutlink:
		o.Pending.Limit(now)
	}
	return nil
}

func checkHost(p netip.Prefix, h *store.Host, now time.Time) error {
	h.Addr = h.Addr.Unmap()
	h.Assigned = true // if this peer ever owns it
	if h.Name == "" || len(h.Name) > maxName || h.Subnet != p || store.SubnetOf(h.Addr) != p {
		return fmt.Errorf("%w: host %.100q is not in the subnet", errMalformed, h.Name)
	}
	h.Queued, h.Known = min(max(h.Queued, 0), maxCount), min(max(h.Known, 0), maxCount)
	if h.NextAt.Sub(now) > maxCooldown {
		h.NextAt = now.Add(maxCooldown)
	}
	if today := store.DayOf(now); h.Day > today+1 {
		h.Day, h.DayCount = 0, 0
	}
	h.DayCount = max(h.DayCount, 0)
	h.Health.Limit(now)
	return nil
}
