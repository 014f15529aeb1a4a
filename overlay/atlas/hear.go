package atlas

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
)

// hear judges a message and takes in what is news. It checks up to twice
// maxLeases signatures and so does not run inline.
func (a *Atlas) hear(_ context.Context, from peer.ID, m *pubsub.Message) pubsub.ValidationResult {
	if from == a.cfg.Self {
		return pubsub.ValidationAccept
	}
	news, err := a.take(m.GetData(), time.Now())
	switch {
	case errors.Is(err, ErrMessage):
		a.log.Debug("bad announcement of subnets", "peer", from, "err", err)
		return pubsub.ValidationReject
	case news == 0:
		return pubsub.ValidationIgnore
	}
	return pubsub.ValidationAccept
}

// take takes in what is news of a message, and says how many subnets that was.
func (a *Atlas) take(raw []byte, now time.Time) (news int, err error) {
	owner, leases, err := parse(raw)
	if err != nil || owner == a.cfg.Self { // our own words, repeated
		return 0, err
	}
	for _, l := range leases {
		if l.CheckTime(now) != nil || !a.quota.spare(owner, now) {
			continue
		}
		if a.cfg.Heard != nil {
			a.cfg.Heard(l)
		}
		if a.table.put(newEntry(l), false, now, a.cfg.RepeatAfter/2) {
			a.quota.take(owner, now)
			news++
		}
	}
	a.received.Add(int64(news))
	return news, nil
}

// maxOwners is of how many owners is remembered how much they said of late.
const maxOwners = 4096

// quota bounds what one owner can have everybody pass on: twice what owners say
// at most, and some more at first. Its methods may be called at once.
type quota struct {
	each  time.Duration // of credit, that a subnet costs
	burst time.Duration

	mu    sync.Mutex
	until *simplelru.LRU[peer.ID, time.Time] // when all of it is paid
}

func newQuota(gap time.Duration) (*quota, error) {
	until, err := simplelru.NewLRU[peer.ID, time.Time](maxOwners, nil)
	if err != nil {
		return nil, fmt.Errorf("atlas: %w", err)
	}
	return &quota{each: gap / (2 * maxLeases), burst: 10 * gap, until: until}, nil
}

// spare says whether owner may have one more.
func (q *quota) spare(owner peer.ID, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, _ := q.until.Get(owner)
	return until.Sub(now) < q.burst
}

// take notes that owner had one more.
func (q *quota) take(owner peer.ID, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	until, _ := q.until.Get(owner)
	if until.Before(now) {
		until = now
	}
	q.until.Add(owner, until.Add(q.each))
}
