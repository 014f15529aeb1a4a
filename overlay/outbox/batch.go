package outbox

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/order"
)

// hostShare is the part of a batch that belongs to one host.
type hostShare struct {
	name    string
	res     Resolution
	limit   int    // URLs to take at most
	pending int    // pending URLs of the host by the table's count
	adds    uint64 // entry.adds at that time
}

// batchPlan describes a batch to be packed.
type batchPlan struct {
	owner    peer.ID
	at       time.Time
	shares   []hostShare
	takesAll bool // the batch takes all pending URLs of the owner
}

// nextBatch plans a batch that is due according to line. Each host gets an equal share of it,
// as far as it has that many URLs.
func (t *hostTable) nextBatch(line *timeline[*hostQueue], now time.Time) (batchPlan, bool) {
	q, ok := line.pop(now)
	if !ok {
		return batchPlan{}, false
	}
	q.timeline, q.fullSince = nil, time.Time{}
	t.sending[q.owner] = true
	left := t.cfg.batchSize()
	p := batchPlan{owner: q.owner, at: now, takesAll: q.count <= left && q.hosts.Len() <= left}
	for range min(left, q.hosts.Len()) {
		e := q.hosts.Front().Value.(*entry)
		q.hosts.MoveToBack(e.elem)
		p.shares = append(p.shares, hostShare{name: e.name, res: e.res, pending: e.count,
			adds: e.adds})
	}
	order.SortStableFunc(p.shares, func(x, y hostShare) int { return x.pending - y.pending })
	for i := range p.shares {
		x := &p.shares[i]
		x.limit = min(x.pending, left/(len(p.shares)-i))
		left -= x.limit
	}
	return p, true
}

// outcome is the outcome of sending a batch.
type outcome uint8

const (
	failed outcome = iota
	empty          // there was nothing to send
	delivered
)

// batchDone records the outcome of a batch. The owner may then get the next one.
func (t *hostTable) batchDone(p batchPlan, status outcome, now time.Time) {
	delete(t.sending, p.owner)
	switch status {
	case delivered:
		t.backoffs.Remove(p.owner)
		t.reads.clear(p.owner)
	case failed:
		r, _ := t.backoffs.Get(p.owner)
		r.until = now.Add(t.cfg.backoff(r.fails))
		r.fails++
		t.backoffs.Add(p.owner, r)
		t.reads.suspect(p.owner, now)
		if r.fails%resolveAfter == 0 {
			for _, x := range p.shares {
				if e := t.ofOwner(x.name, p.owner); e != nil {
					t.setState(e, unresolved, r.until, now)
				}
			}
		}
	}
	if q := t.outboxes[p.owner]; q != nil {
		if status != failed && p.takesAll && p.at.After(q.oldest) {
			q.oldest = p.at
		}
		t.schedule(q, now)
	}
}
