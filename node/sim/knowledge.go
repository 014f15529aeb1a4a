package sim

import "time"

// knowledge follows through the history who must have known of a page that it was
// fetched: its owner, and of that owner's shadows each that had a complete copy, and
// was in reach, for unsynced after the fetch. It is a lower bound: who had less than
// that may know all the same.
type knowledge struct {
	w      *world
	s      Schedule
	subnet string

	since  time.Duration         // when the owner came to know
	now    *term                 // whose subnet it is
	owner  bool                  // the owner knows, or did when it had its disk
	gone   bool                  // it has it no more
	streak map[int]time.Duration // how long each shadow was in reach
	why    string                // the fault by which nobody who could go on knew; "" there was none
}

// known is what a shadow must know, and could act by.
func (k *knowledge) known(n int) bool { return k.streak[n] >= unsynced }

// lost says by which fault the knowledge of a page that was fetched for a subnet at
// some time, since the crawl was seeded, was lost to all who could own the subnet until
// another time; "" if somebody knew.
func (w *world) lost(s Schedule, subnet string, at, until time.Duration) string {
	k := knowledge{w: w, s: s, subnet: subnet, since: at, owner: true, streak: map[int]time.Duration{}}
	k.now = w.termAt(subnet, at+inFlight)
	if k.now == nil {
		return ""
	}
	for t := at + look; t <= until; t += look {
		k.step(t)
	}
	return k.why
}

// step goes on by one look.
func (k *knowledge) step(t time.Duration) {
	if next := k.w.termAt(k.subnet, t); next.epoch != k.now.epoch || next.peer != k.now.peer {
		k.change(next)
	} else {
		k.now = next
	}
	for _, f := range k.s.Faults {
		if f.At <= t-look || f.At > t || len(f.Peers) == 0 || f.Peers[0] != k.now.peer {
			continue
		}
		if f.empties() {
			k.gone = true
		}
		if f.Kind == Power && f.At <= k.since+unsynced && k.owner && !k.gone {
			k.owner, k.why = false, "not synced, "+f.Kind.String()
		}
	}
	had := map[int]time.Duration{}
	for _, n := range k.now.shadows {
		if _, apart := k.s.apart(k.now.peer, n, t-look, t); !apart && k.owner && !k.gone {
			had[n] = k.streak[n] + look
		} else if _, hurt := k.s.hurt(n, t-look, t); !hurt && k.known(n) {
			had[n] = k.streak[n] // out of the owner's reach it knows still
		}
	}
	k.streak = had
}

// change is another owner, or the same anew.
func (k *knowledge) change(next *term) {
	defer func() { k.now, k.since = next, next.from }()
	if k.gave(next) || next.peer == k.now.peer && !k.gone {
		k.gone = false
		return // all that there was
	}
	knew := k.known(next.peer)
	if k.owner && !knew && !k.able(next.from) {
		k.why = "at no shadow in reach"
		if f, ok := k.s.apart(k.now.peer, next.peer, next.from-2*time.Minute, next.from); ok {
			k.why += ", " + f.Kind.String()
		} else {
			k.why = "" // nothing has kept the owner from going on
		}
	}
	k.owner, k.gone = knew, false
}

// able says whether somebody knew, and could have gone on.
func (k *knowledge) able(at time.Duration) bool {
	if _, cut := k.s.cut(at-time.Minute, at); cut {
		return false
	}
	for n := range k.streak {
		if k.known(n) {
			return true
		}
	}
	return false
}

// gave says whether the owner gave the subnet to the next: it held it until then,
// and they heard each other.
func (k *knowledge) gave(next *term) bool {
	if _, apart := k.s.apart(k.now.peer, next.peer, next.from-look, next.from); apart {
		return false
	}
	var last time.Duration
	for _, t := range k.w.terms[k.subnet] {
		if t.peer == k.now.peer && t.epoch == k.now.epoch {
			last = max(last, t.to)
		}
	}
	return last >= next.from-handing && last <= next.from+handing
}

// handing is how long before its heir an owner may be seen for the last time, or
// after, if it gave the subnet to it.
const handing = 4 * look
