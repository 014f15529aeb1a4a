package ownership

import (
	"slices"
	"time"

	"peerd/overlay/ownership/internal/rule"
)

// A Quorum is what an owner knows of its witnesses for one lease. It is in memory only: an
// owner that restarts has no right to fetch until enough witnesses have answered.
type Quorum struct {
	Lease Digest
	Since time.Duration // when the lease came to this process
	Acks  []Ack         // the newest of each witness
}

// An Ack is a heartbeat that a witness has answered.
type Ack struct {
	By   Member
	Sent time.Duration // when the heartbeat was sent, by the owner's clock
	Seq  uint64        // the number of the newest replicas that the witness knows
}

// Count returns q with the answer to a heartbeat that came at now. The unit has handled the
// answer before. One that tells of a vote or of another lease does not count.
func (r Rules) Count(q Quorum, re Reply, now time.Duration) Quorum {
	if re.Topic != Heartbeat || re.Refusal != Consented || re.Voted ||
		re.Prev != q.Lease {
		return q
	}
	a := Ack{By: re.By, Sent: re.Sent, Seq: re.Seq}
	if !r.on(rule.FromSending) {
		a.Sent = now
	}
	acks := slices.Clone(q.Acks)
	i := slices.IndexFunc(acks, func(b Ack) bool { return b.By.ID == a.By.ID })
	switch {
	case i < 0:
		acks = append(acks, a)
	case acks[i].By != a.By || acks[i].Sent < a.Sent:
		acks[i] = a
	}
	q.Acks = acks
	return q
}

// Holds reports whether the owner of l may act at now, by its own clock. An owner without
// witnesses always may. One with a single witness may again when that has not answered for
// AloneAfter. A witness that has lost its disk does not count: it may have signed against
// the owner.
func (r Rules) Holds(q Quorum, l *Lease, now time.Duration) bool {
	n := len(l.Witnesses)
	if n == 0 {
		return true
	}
	hold, keep := Hold, Keep(n)
	if !r.on(rule.HoldShorter) {
		hold = Promise + Hold
	}
	if !r.on(rule.Quorum) {
		keep--
	}
	last, have := q.Since, 0
	for _, a := range q.Acks {
		if !slices.Contains(l.Witnesses, a.By) && r.on(rule.AckStore) {
			continue
		}
		if last = max(last, a.Sent); now-a.Sent < hold {
			have++
		}
	}
	return q.Lease == l.ID() && (have >= keep || n == 1 && now-last >= AloneAfter)
}

// Knows reports whether so many witnesses know a list of replicas that no certificate can
// be made by an earlier one.
func (r Rules) Knows(q Quorum, l *Lease, seq uint64) bool {
	have := 0
	for _, a := range q.Acks {
		if slices.Contains(l.Witnesses, a.By) && a.Seq >= seq {
			have++
		}
	}
	return seq == 0 || len(l.Witnesses) == 0 || have >= Keep(len(l.Witnesses)) ||
		!r.on(rule.Confirmed)
}
