package replica

import (
	"errors"
	"time"

	"peerd/internal/clock"
)

// A link may hang without its socket noticing: the other process is stopped, or its
// packets are lost. So both ends use the times at which frames were answered.
//
// The owner knows since when a replica owes it a reply (follower.lastHeard). The
// replica learns that time indirectly: each frame says how many of its replies had come
// when nothing was owed, and the replica knows when it sent those. The time that it
// derives (confirmed) is never later than the owner's, however long frames were buffered.

// sendTimeInterval is the least distance of two sendTimes, and maxSendTimes their number.
const (
	sendTimeInterval = time.Second
	maxSendTimes     = 32
)

// sendTime says when the items up to number seq were sent, or the first of them since
// the sendTime before.
type sendTime struct {
	seq uint64
	at  time.Time
}

// sendTimes are those of unanswered items, in order.
type sendTimes []sendTime

// add records that the items up to seq have been sent.
func (ms *sendTimes) add(seq uint64, now time.Time) {
	all := *ms
	n := len(all)
	switch {
	case n > 0 && seq <= all[n-1].seq: // sent again
	case n > 0 && (now.Sub(all[n-1].at) < sendTimeInterval || n == maxSendTimes):
		all[n-1].seq = seq
	default:
		*ms = append(all, sendTime{seq, now})
	}
}

// drop removes what is answered, up to seq, and returns the earliest time at which the
// last of it was sent; the zero time if nothing is removed.
func (ms *sendTimes) drop(seq uint64) (at time.Time) {
	all, n := *ms, 0
	for n < len(all) && all[n].seq <= seq {
		at = all[n].at
		n++
	}
	if *ms = all[n:]; n == len(all) {
		*ms = nil
	}
	return at
}

// flight has the frames that an owner has sent on a link and the replica has not taken yet.
// heard and lastProgress outlive a stream.
type flight struct {
	weights      []int // of these frames
	size         int   // sum of weights
	taken        uint64
	replies      uint64    // received
	echo         uint64    // number of replies when nothing was owed
	heard        time.Time // when the last reply came, on any stream
	lastProgress time.Time // when a frame was last taken, or sent while none was in flight
}

// add records that a frame of that weight is sent.
func (x *flight) add(weight int, now time.Time) {
	if len(x.weights) == 0 {
		x.lastProgress = now
	}
	x.weights = append(x.weights, weight)
	x.size += weight
}

// next returns the number of the next frame, from 1.
func (x *flight) next() uint64 { return x.taken + uint64(len(x.weights)) + 1 }

// reply records a reply, by which the replica has taken that many frames.
func (x *flight) reply(taken uint64, now time.Time) error {
	before := x.taken
	for x.taken < taken {
		if len(x.weights) == 0 {
			return errors.New("replica: more frames taken than were sent")
		}
		x.taken++
		x.size -= x.weights[0]
		x.weights = x.weights[1:]
	}
	x.heard = now
	x.replies++
	if x.taken > before || len(x.weights) == 0 {
		x.lastProgress, x.echo = now, x.replies
	}
	return nil
}

// lastHeard returns when the replica last kept up: it has replied since then, and owes
// no reply to anything sent before. The zero time means never. The caller holds
// sources.mu.
func (f *follower) lastHeard() time.Time {
	x := &f.link.flight
	at := x.heard
	if len(x.weights) > 0 && x.lastProgress.Before(at) {
		at = x.lastProgress
	}
	if len(f.unacked) > 0 && f.unacked[0].at.Before(at) {
		at = f.unacked[0].at
	}
	return at
}

// onReplySent records that the replica sends a reply.
func (in *replicaLink) onReplySent(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.replies++
	in.unconfirmed.add(in.replies, now)
}

// attach counts a copy that is open on the link.
func (in *replicaLink) attach() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.copies++
}

// confirmedAt returns until when the owner counted on this peer, and whether a copy is open.
func (in *replicaLink) confirmedAt() (at time.Time, used bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.confirmed, in.copies > 0
}

// lastTimes returns when the owner of a copy that is open on a link was last heard, and until
// when it counted on the copy. The caller holds copies.mu.
func (r *heldCopy) lastTimes() (heard, confirmed time.Time) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.current {
		return r.link.heard, clock.Later(r.confirmed, r.link.confirmed)
	}
	return r.link.heard, r.confirmed
}

// detach ends the connection of a copy to its link. The caller holds copies.mu.
func (r *heldCopy) detach() {
	in := r.link
	if in == nil {
		return
	}
	r.heard, r.confirmed = r.lastTimes()
	r.link, r.current = nil, false
	in.mu.Lock()
	defer in.mu.Unlock()
	in.copies--
}

// detachAll detaches the copies that are open on a link.
func (cs *copies) detachAll(in *replicaLink) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, r := range cs.held {
		if r.link == in {
			r.detach()
		}
	}
}
