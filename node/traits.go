package node

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/store"
)

// traits is what this peer learns of itself as a downloader: every page that it
// fetches, for itself or for others, against what the owners of the servers
// publish of them. Its methods may be called at once.
type traits struct {
	cfg   coords.LearnerConfig
	self  string
	db    *store.DB
	known func() assign.Known
	set   func(coords.Traits) error
	peers func() []coords.Traits // what other peers publish; nil: nothing
	every time.Duration
	log   *slog.Logger

	mu      sync.Mutex // for computations only
	learner *coords.Learner
	heard   map[string]*heard // by subnet: what the learner was given
	count   uint64
	news    bool // since the traits were worked out last
	unsaved bool
}

// newTraits goes on from what was learned before the restart. known is what
// owners publish, set is told the traits, each time that they were worked out
// anew: at most every so often.
func newTraits(self string, db *store.DB, known func() assign.Known, set func(coords.Traits) error, every time.Duration, log *slog.Logger) (*traits, error) {
	cfg := coords.DefaultLearnerConfig()
	l, err := coords.NewLearner(cfg, self)
	if err != nil {
		return nil, err
	}
	t := &traits{cfg: cfg, heard: map[string]*heard{}, self: self, db: db, known: known, set: set, every: every, log: log, learner: l}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// observe takes a download that this peer made, or failed to make, in a subnet.
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
	t.keep(p.String(), s)
	t.news, t.unsaved = true, true
}

// saveEvery is how often what was learned is written down.
const saveEvery = 5 * time.Minute

// Run publishes what is learned until ctx ends.
func (t *traits) Run(ctx context.Context) error {
	publish, save := time.NewTicker(t.every), time.NewTicker(saveEvery)
	defer publish.Stop()
	defer save.Stop()
	t.publish(true)
	for {
		select {
		case <-ctx.Done():
			return t.writeDown()
		case <-publish.C:
			t.publish(false)
		case <-save.C:
			if err := t.writeDown(); err != nil {
				return err
			}
		}
	}
}

// writeDown is save; what there is no room for is kept the next time.
func (t *traits) writeDown() error {
	err := t.save()
	if !store.IsFull(err) {
		return err
	}
	t.log.Warn("what was learned of downloads was not written", "err", err)
	t.mu.Lock()
	t.unsaved = true
	t.mu.Unlock()
	return nil
}

// publish works the traits out anew if there is reason to, and tells them.
func (t *traits) publish(anyway bool) {
	now, ok := t.work(anyway)
	if !ok {
		return
	}
	if err := t.set(now); err != nil {
		t.log.Error("the own traits are out of bounds", "err", err)
	}
}

// work lets the learner hear what owners say of the servers that it knows, and
// returns the traits.
func (t *traits) work(anyway bool) (now coords.Traits, ok bool) {
	known := t.known()
	var others []coords.Traits
	if t.peers != nil {
		others = t.peers()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.news && !anyway {
		return nil, false
	}
	t.news = false
	for _, s := range t.learner.Subnets() {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			continue // written by us, and no reason to stop
		}
		for d := range known.Within(p) {
			if d.Subnet == p && d.Proxy != nil {
				t.tell(s, *d.Proxy)
			}
		}
	}
	t.learner.Meet(others)
	return t.learner.Traits(), true
}

// metaTraits is the name under which the state is kept.
const metaTraits = "traits"

// heard is what the learner was given of one subnet, as it is kept over a
// restart: it is given the same again.
type heard struct {
	Subnet string          `cbor:"1,keyasint"`
	Took   []time.Duration `cbor:"2,keyasint,omitempty"` // oldest first; 0 is a failure
	Told   coords.Traits   `cbor:"3,keyasint,omitempty"`
	last   uint64
}

// keep notes a download for the next start.
func (t *traits) keep(subnet string, s coords.Sample) {
	h := t.heard[subnet]
	if h == nil {
		if len(t.heard) >= 2*t.cfg.Subnets {
			t.prune()
		}
		h = &heard{Subnet: subnet}
		t.heard[subnet] = h
	}
	t.count++
	h.last = t.count
	took := s.FirstByte + s.Body
	if s.Failed {
		took = 0
	}
	h.Took = append(h.Took, took)
	if n := len(h.Took) - 2*t.cfg.PerSubnet; n > 0 {
		h.Took = slices.Delete(h.Took, 0, n)
	}
}

// prune forgets what the learner has forgotten.
func (t *traits) prune() {
	subnets := t.learner.Subnets()
	maps.DeleteFunc(t.heard, func(s string, _ *heard) bool {
		_, known := slices.BinarySearch(subnets, s)
		return !known
	})
}

// load goes on from the state on the disk, if there is one.
func (t *traits) load() error {
	var all []heard
	err := t.db.View(func(tx *store.Tx) error { return tx.Meta(metaTraits, &all) })
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range all[:min(len(all), t.cfg.Subnets)] {
		for _, took := range h.Took[:min(len(h.Took), 2*t.cfg.PerSubnet)] {
			s := coords.Sample{Peer: t.self, FirstByte: took, Failed: took == 0}
			t.learner.Observe(h.Subnet, s)
			t.keep(h.Subnet, s)
		}
		if h.Told.Validate() == nil {
			t.tell(h.Subnet, coords.Proxy{Traits: h.Told})
		}
	}
	for range settleRounds {
		t.learner.Traits()
	}
	return nil
}

// settleRounds is how often what is on the disk is gone over: each round starts
// where the last one ended.
const settleRounds = 10

// tell gives the learner what an owner says.
func (t *traits) tell(subnet string, p coords.Proxy) {
	t.learner.Told(subnet, p)
	if h := t.heard[subnet]; h != nil {
		h.Told = p.Traits
	}
}

// save writes the state down if it has changed.
func (t *traits) save() error {
	t.mu.Lock()
	if !t.unsaved {
		t.mu.Unlock()
		return nil
	}
	t.unsaved = false
	t.prune()
	all := make([]heard, 0, len(t.heard))
	for _, h := range t.heard {
		c := *h
		c.Took = slices.Clone(h.Took)
		all = append(all, c)
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b heard) int { return cmp.Compare(a.last, b.last) })
	return t.db.Update(func(tx *store.Tx) error { return tx.PutMeta(metaTraits, all) })
}
