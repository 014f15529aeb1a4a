package node

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/internal/order"
	"peerd/store"
)

// traits learns what kind of downloader this peer is: it compares the time of every page that it
// fetches, for itself or for others, with what the owners publish of the servers. Its methods
// are safe for concurrent use.
type traits struct {
	self     string
	db       *store.DB
	known    func() assign.Delegations
	announce func(coords.Traits) error
	peers    func() []coords.Traits // what other peers publish; nil: nothing
	interval time.Duration
	log      *slog.Logger

	mu      sync.Mutex // not held during I/O
	learner *coords.Learner
	history map[string]*subnetHistory // by subnet
	count   uint64
	changed bool // since the traits were last computed
	unsaved bool
}

// newTraits continues with the state in the store. known returns what owners publish. announce
// is called with new traits, at most once in interval.
func newTraits(
	self string, db *store.DB, known func() assign.Delegations, set func(coords.Traits) error,
	every time.Duration, log *slog.Logger,
) (*traits, error) {
	l := coords.NewLearner(self, coords.LearnerSubnets)
	t := &traits{history: map[string]*subnetHistory{}, self: self, db: db, known: known,
		announce: set, interval: every, log: log, learner: l}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// observe adds a download in a subnet that this peer made or failed to make.
func (t *traits) observe(p prefix, r store.FetchReport, err error) {
	s := coords.Sample{
		Peer: t.self, Connect: r.Timing.Connect, FirstByte: r.Timing.FirstByte, Body: r.Timing.Body,
		Reused: r.Timing.Reused, Bytes: r.Bytes, Failed: err != nil || !r.Outcome.Answered(),
	}
	if !s.Failed && s.FirstByte+s.Body == 0 {
		return // a connection only
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.learner.Observe(p.String(), s)
	t.record(p.String(), s)
	t.changed, t.unsaved = true, true
}

// saveInterval is the time between two saves of the state.
const saveInterval = 5 * time.Minute

// Run publishes the traits until ctx ends.
func (t *traits) Run(ctx context.Context) error {
	publish, save := time.NewTicker(t.interval), time.NewTicker(saveInterval)
	defer publish.Stop()
	defer save.Stop()
	t.publish(true)
	for {
		select {
		case <-ctx.Done():
			return t.saveOrRetry()
		case <-publish.C:
			t.publish(false)
		case <-save.C:
			if err := t.saveOrRetry(); err != nil {
				return err
			}
		}
	}
}

// saveOrRetry saves the state. If the disk is full, it logs this and the next save tries again.
func (t *traits) saveOrRetry() error {
	err := t.save()
	if !store.IsNoSpace(err) {
		return err
	}
	t.log.Warn("failed to save the traits", "err", err)
	t.mu.Lock()
	t.unsaved = true
	t.mu.Unlock()
	return nil
}

// publish computes the traits and announces them, if there is new data or if always is set.
func (t *traits) publish(always bool) {
	now, ok := t.compute(always)
	if !ok {
		return
	}
	if err := t.announce(now); err != nil {
		t.log.Error("failed to announce the traits", "err", err)
	}
}

// compute gives the learner what owners publish of the servers that it knows, and returns the
// traits; ok is false if nothing has changed.
func (t *traits) compute(always bool) (now coords.Traits, ok bool) {
	known := t.known()
	var others []coords.Traits
	if t.peers != nil {
		others = t.peers()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.changed && !always {
		return nil, false
	}
	t.changed = false
	for _, s := range t.learner.Subnets() {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			continue // an invalid entry must not stop the peer
		}
		for d := range known.Within(p) {
			if d.Subnet == p && d.Proxy != nil {
				t.setPublished(s, *d.Proxy)
			}
		}
	}
	t.learner.ObservePeers(others)
	return t.learner.Traits(), true
}

// metaTraits is the key of the state in the store.
const metaTraits = "traits"

// subnetHistory is the input of the learner for one subnet, as it is stored.
type subnetHistory struct {
	Subnet    string          `cbor:"1,keyasint"`
	Durations []time.Duration `cbor:"2,keyasint,omitempty"` // oldest first; 0 is a failure
	Published coords.Traits   `cbor:"3,keyasint,omitempty"`
	lastUse   uint64
}

// record stores a download in the history.
func (t *traits) record(subnet string, s coords.Sample) {
	h := t.history[subnet]
	if h == nil {
		if len(t.history) >= 2*coords.LearnerSubnets {
			t.prune()
		}
		h = &subnetHistory{Subnet: subnet}
		t.history[subnet] = h
	}
	t.count++
	h.lastUse = t.count
	took := s.FirstByte + s.Body
	if s.Failed {
		took = 0
	}
	h.Durations = append(h.Durations, took)
	if n := len(h.Durations) - 2*coords.LearnerPerSubnet; n > 0 {
		h.Durations = slices.Delete(h.Durations, 0, n)
	}
}

// prune deletes the history of subnets that the learner has evicted.
func (t *traits) prune() {
	subnets := t.learner.Subnets()
	maps.DeleteFunc(t.history, func(s string, _ *subnetHistory) bool {
		_, known := slices.BinarySearch(subnets, s)
		return !known
	})
}

// load restores the state from the store, if there is one.
func (t *traits) load() error {
	var all []subnetHistory
	if err := t.db.Meta(metaTraits, &all); err != nil {
		return err
	}
	for _, h := range all[:min(len(all), coords.LearnerSubnets)] {
		for _, took := range h.Durations[:min(len(h.Durations), 2*coords.LearnerPerSubnet)] {
			s := coords.Sample{Peer: t.self, FirstByte: took, Failed: took == 0}
			t.learner.Observe(h.Subnet, s)
			t.record(h.Subnet, s)
		}
		if h.Published.Validate() == nil {
			t.setPublished(h.Subnet, coords.Proxy{Traits: h.Published})
		}
	}
	for range convergeRounds {
		t.learner.Traits()
	}
	return nil
}

// convergeRounds is the number of computations after loading; each starts from the result of the
// one before.
const convergeRounds = 10

// setPublished gives the learner what an owner publishes.
func (t *traits) setPublished(subnet string, p coords.Proxy) {
	t.learner.ObserveServer(subnet, p)
	if h := t.history[subnet]; h != nil {
		h.Published = p.Traits
	}
}

// save stores the state if it has changed.
func (t *traits) save() error {
	t.mu.Lock()
	if !t.unsaved {
		t.mu.Unlock()
		return nil
	}
	t.unsaved = false
	t.prune()
	all := make([]subnetHistory, 0, len(t.history))
	for _, h := range t.history {
		c := *h
		c.Durations = slices.Clone(h.Durations)
		all = append(all, c)
	}
	t.mu.Unlock()
	order.SortFunc(all, func(a, b subnetHistory) int { return cmp.Compare(a.lastUse, b.lastUse) })
	return t.db.PutMeta(metaTraits, all)
}
