package shadow

import "time"

// A link may hang and its socket not know: the other process is stopped, or its
// packets are lost. So both ends go by what was answered, and when.
//
// The owner knows since when a replica owes it something (follower.heard). The
// replica learns how far that is: each frame says how many of its answers had come
// when all was well, and it knows when it sent those. What it concludes (counted) is
// never later than what the owner knows, whatever lay in buffers for however long.

// markEvery is how close together marks are, and maxMarks how many are kept.
const (
	markEvery = time.Second
	maxMarks  = 32
)

// mark says when things up to the number seq were sent, or the first of them since
// the mark before.
type mark struct {
	seq uint64
	at  time.Time
}

// marks are those of what is unanswered, in order.
type marks []mark

// add notes that things up to seq have been sent.
func (ms *marks) add(seq uint64, now time.Time) {
	all := *ms
	n := len(all)
	switch {
	case n > 0 && seq <= all[n-1].seq: // sent again
	case n > 0 && (now.Sub(all[n-1].at) < markEvery || n == maxMarks):
		all[n-1].seq = seq
	default:
		*ms = append(all, mark{seq, now})
	}
}

// drop forgets what is answered, up to seq, and returns when the last of it was
// sent at the earliest; the zero time if nothing is forgotten.
func (ms *marks) drop(seq uint64) (at time.Time) {
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

// heard is when the replica last kept up: it has answered since, and owes no answer to
// anything that was sent before. The zero time is never. The caller holds
// Service.mu.
func (f *follower) heard() time.Time {
	at := f.link.heard
	if l := f.link; len(l.flight) > 0 && l.moved.Before(at) {
		at = l.moved
	}
	if len(f.marks) > 0 && f.marks[0].at.Before(at) {
		at = f.marks[0].at
	}
	return at
}

// beats takes in that an answer has come, which says that so many more frames
// were taken in.
func (l *link) beats(more uint64, now time.Time) {
	l.heard = now
	l.answers++
	if more > 0 || len(l.flight) == 0 {
		l.moved, l.echo = now, l.answers
	}
}

// answered notes that the replica sends an answer.
func (in *inlink) answered(now time.Time) {
	in.answers++
	in.sent.add(in.answers, now)
}

// echoed takes in that the owner had the first n of the answers when we owed
// it nothing, or went on.
func (in *inlink) echoed(n uint64) {
	if at := in.sent.drop(n); !at.IsZero() {
		in.counted = at
	}
}

// close ends that the owner tells what changes. The caller holds mu.
func (r *replica) close() {
	if r.in != nil {
		r.heard = r.in.heard
		if r.current {
			r.counted = later(r.counted, r.in.counted)
		}
		r.in.copies--
		r.in, r.current = nil, false
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
