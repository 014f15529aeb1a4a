package ownermap

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// validate validates a message and adds what is new in it. It checks up to sixty signatures and
// therefore does not run inline.
func (m *Map) validate(
	_ context.Context, from peer.ID, msg *pubsub.Message,
) pubsub.ValidationResult {
	if from == m.cfg.Self {
		return pubsub.ValidationAccept
	}
	if !m.forwarded.Allow(forwardRate, from, time.Now()) {
		return pubsub.ValidationIgnore // others forward it too, or it is repeated
	}
	added, err := m.receive(msg.GetData(), from, time.Now())
	switch {
	case errors.Is(err, ErrMessage):
		m.log.Debug("rejected announcement", "peer", from, "err", err)
		return pubsub.ValidationReject
	case added == 0:
		return pubsub.ValidationIgnore
	}
	return pubsub.ValidationAccept
}

// receive adds what is new in a message that a peer has forwarded, and returns the number of
// changed subnets. It checks no signature of a message without news.
func (m *Map) receive(raw []byte, from peer.ID, now time.Time) (added int, err error) {
	owner, leases, err := parse(raw, m.cfg.Network, lease.PeekLease)
	if err != nil || owner == m.cfg.Self { // our own message
		return 0, err
	}
	news := func(l lease.Lease) bool {
		return l.CheckTime(now) == nil && m.table.news(newEntry(l), now, m.cfg.RepeatAfter/2)
	}
	if !m.quota.allows(owner, now) || !slices.ContainsFunc(leases, news) ||
		!m.verified.AllowN(verifyRate, from, 1+len(raw)>>10, now) {
		return 0, nil
	}
	if _, leases, err = parse(raw, m.cfg.Network, lease.OpenLease); err != nil {
		return 0, err
	}
	for _, l := range leases {
		if l.CheckTime(now) != nil || !m.quota.allows(owner, now) {
			continue
		}
		m.cfg.Node.ObserveLease(l)
		if m.table.put(newEntry(l), false, now, m.cfg.RepeatAfter/2) {
			m.quota.charge(owner, now)
			added++
		}
	}
	m.received.Add(int64(added))
	return added, nil
}

// forwardRate limits the messages that are read for a peer that forwards them, whoever has made
// them. A network of a thousand peers in which everything changes makes a hundred a second, each
// of which comes from several peers.
var forwardRate = wire.Rate{PerSecond: 50, Burst: 500, TotalFactor: 4}

// verifyRate limits the KiB of messages of which the signatures are checked for a peer that
// forwards them. A KiB has at most five, and two to four in messages of honest owners.
var verifyRate = wire.Rate{PerSecond: 64, Burst: 1024, TotalFactor: 4}

// maxQuotaOwners is the number of owners of which the quota is tracked.
const maxQuotaOwners = 4096

// quota limits how many announcements of one owner this peer relays: twice the maximum rate of
// an honest owner, plus a burst. Its methods may be called concurrently.
type quota struct {
	cost  time.Duration // time that one announcement costs
	burst time.Duration

	mu     sync.Mutex
	paidAt *lru.Simple[peer.ID, time.Time] // when all announcements are paid for
}

func newQuota(gap time.Duration) *quota {
	return &quota{cost: gap / (2 * maxLeases), burst: 10 * gap,
		paidAt: lru.NewSimple[peer.ID, time.Time](maxQuotaOwners, nil)}
}

// allows reports whether owner may send another announcement.
func (q *quota) allows(owner peer.ID, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, _ := q.paidAt.Get(owner)
	return until.Sub(now) < q.burst
}

// charge counts an announcement of owner.
func (q *quota) charge(owner peer.ID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, _ := q.paidAt.Get(owner)
	if until.Before(now) {
		until = now
	}
	q.paidAt.Add(owner, until.Add(q.cost))
}
