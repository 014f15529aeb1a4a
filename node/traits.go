package node

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/store"
)

// traits learns what a page takes at this peer in addition to what others need: it compares each
// page that it fetches, for itself or for others, with what the owners publish of the servers. It
// starts from nothing when the peer starts, because what else the machine does has changed. Its
// methods are safe for concurrent use.
type traits struct {
	known    func() assign.Delegations
	announce func(coords.Traits) error
	interval time.Duration
	log      *slog.Logger

	mu      sync.Mutex // not held during I/O
	learner *coords.Learner
	changed bool // since the traits were last computed
}

// newTraits returns traits without a download. known returns what owners publish. announce is
// called with new traits, at most once in interval.
func newTraits(
	known func() assign.Delegations, announce func(coords.Traits) error, interval time.Duration,
	log *slog.Logger,
) *traits {
	return &traits{known: known, announce: announce, interval: interval, log: log,
		learner: coords.NewLearner(coords.LearnerSubnets)}
}

// observe adds a download in a subnet that this peer made or failed to make.
func (t *traits) observe(p netip.Prefix, r store.FetchReport, err error) {
	if err != nil || !r.Outcome.Answered() || r.File {
		return
	}
	r = r.Measured()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learner.Observe(p.String(), coords.Sample{
		Connect: r.Timing.Connect, FirstByte: r.Timing.FirstByte, Body: r.Timing.Body,
		Reused: r.Timing.Reused, Bytes: r.Bytes,
	})
	t.changed = true
}

// Run publishes the traits until ctx ends.
func (t *traits) Run(ctx context.Context) error {
	publish := time.NewTicker(t.interval)
	defer publish.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-publish.C:
			t.publish()
		}
	}
}

// publish computes the traits and announces them, if there are new downloads.
func (t *traits) publish() {
	now := t.compute()
	if now == nil {
		return
	}
	if err := t.announce(*now); err != nil {
		t.log.Error("failed to announce the traits", "err", err)
	}
}

// compute gives the learner what owners publish of the servers that it knows, and returns the
// traits, nil if nothing has changed or nothing is known.
func (t *traits) compute() *coords.Traits {
	known := t.known()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed {
		return nil
	}
	t.changed = false
	for _, s := range t.learner.Subnets() {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			continue // an invalid entry must not stop the peer
		}
		for d := range known.Within(p) {
			if d.Subnet == p && d.Proxy != nil {
				t.learner.ObserveServer(s, *d.Proxy)
			}
		}
	}
	return t.learner.Traits()
}
