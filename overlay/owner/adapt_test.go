package owner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	_ "peerd/internal/rapidtest"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/store"
)

// reviewer is a script that reviews, too.
type reviewer struct {
	*script
	review func(assign.Evidence) assign.Review
}

func (r reviewer) Review(e assign.Evidence) (assign.Review, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.review(e), nil
}

// doubt is that of all moves of a test; hasty allows it once.
const doubt = 0.01

// hasty watches without patience.
func hasty() *assign.ReviewConfig {
	c := assign.DefaultReviewConfig()
	c.Every = time.Millisecond
	c.Move.Hold, c.Move.Spend = time.Millisecond, 1.5*doubt // half of it after a move
	return &c
}

// prefer finds one peer better than any other owner.
func prefer(who someone) func(assign.Evidence) assign.Review {
	return func(e assign.Evidence) assign.Review {
		id := who.id.String()
		if e.Self == id || e.Exclude[id] {
			return assign.Review{}
		}
		return assign.Review{Scout: id, Hope: 1, Better: id, Gain: 0.5, Doubt: doubt}
	}
}

// adaptive joins alice, who owns subnetA by the time she is returned, and
// with reviews that return what review does.
func adaptive(
	t *testing.T, review func(assign.Evidence) assign.Review, change func(*Config),
) *member {
	t.Helper()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
		c.Strategy = reviewer{&script{next: choose(alice)}, review}
		c.Adapt = hasty()
		if change != nil {
			change(c)
		}
	})
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.frontier.load(subnetA, 3)
	if m.phase(subnetA) != store.PhaseOwned {
		t.Fatal("not decided")
	}
	return m
}

func ok(m *member, who string) {
	m.placement.Observe(subnetA, who, store.FetchReport{Outcome: store.OutcomeOK,
		Timing: store.Timing{FirstByte: time.Millisecond}}, nil)
}

// both lets the owner fetch a page, and bob one in a tenth of the time.
func both(m *member) {
	m.placement.Observe(subnetA, "", store.FetchReport{Outcome: store.OutcomeOK,
		Timing: store.Timing{FirstByte: 10 * time.Millisecond}}, nil)
	ok(m, bob.id.String())
}

// A scout goes before anything moves, one at a time, and what it says is
// written down.
func TestScout(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), func(c *Config) {
		c.Adapt.Move.Hold = time.Hour
		c.Estimate = fetchFunc(func(context.Context, peer.ID, []byte, store.FetchRequest) (
			store.FetchReport, error) {
			return store.FetchReport{Outcome: store.OutcomeOK}, nil
		})
	})
	if who, hold := m.placement.Where(subnetA); who != "" || hold {
		t.Fatalf("the first page goes to %q, held %v", who, hold)
	}
	for range 3 {
		ok(m, "")
	}
	now := time.Now()
	m.placement.review(now)
	if who, _ := m.placement.Where(subnetA); who != bob.id.String() {
		t.Fatalf("the scout is %q, want bob", who)
	}
	if who, _ := m.placement.Where(subnetA); who != "" {
		t.Errorf("two scouts at once: %q", who)
	}
	if _, err := m.placement.Remote(t.Context(), subnetA, bob.id.String(),
		store.FetchRequest{URL: "http://a.test/0"}); err != nil {
		t.Fatal(err)
	}
	if s, _ := m.stored(subnetA); s.Estimator != bob.id.String() {
		t.Error("whom it asked is not on the disk")
	}
	ok(m, "")
	m.placement.review(now.Add(time.Second))
	if who, _ := m.placement.Where(subnetA); who != "" {
		t.Errorf("a second scout while the first is out: %q", who)
	}
	ok(m, bob.id.String())
	s, _ := m.stored(subnetA)
	if s.Estimator != "" || m.Stats().Scouts != 1 {
		t.Errorf("asked %q, %d scouts", s.Estimator, m.Stats().Scouts)
	}
	if e := openEvidence(s.Evidence); len(e.Samples) != 5 || e.Samples[4].Peer != bob.id.String() ||
		e.Samples[4].Taken.IsZero() {
		t.Errorf("samples on the disk: %+v", e.Samples)
	}
}

// Pages of a decided subnet are saved in groups, and less often the more are kept.
func TestPagesSaved(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), func(c *Config) { c.Adapt.Move.Hold = time.Hour })
	now, saved := time.Now(), 0
	for n := range 4 * saveEvery {
		ok(m, "")
		now = now.Add(10 * time.Second)
		m.placement.review(now)
		s, _ := m.stored(subnetA)
		got := len(openEvidence(s.Evidence).Samples)
		if got == saved {
			continue
		}
		if least := max(saveEvery, (n+1)/2); got != n+1 || got-saved < least {
			t.Errorf("after %d pages %d are on the disk, and %d were before", n+1, got, saved)
		}
		saved = got
	}
	if saved < 2*saveEvery {
		t.Errorf("%d of %d pages were saved", saved, 4*saveEvery)
	}
}

// A scout that was not reached is left alone for a while, and the subnet stays.
func TestScoutNotReached(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), nil)
	ok(m, "")
	m.placement.review(time.Now())
	who, _ := m.placement.Where(subnetA)
	m.placement.Observe(subnetA, who, store.FetchReport{}, estimate.ErrNotSent)
	s := m.subnets[subnetA]
	if who != bob.id.String() || len(s.avoid) != 1 || len(s.exclude) != 0 || len(s.history) != 1 {
		t.Fatalf("scout %q, avoids %v, excludes %v, %d samples", who, s.avoid, s.exclude,
			len(s.history))
	}
	ok(m, "")
	m.placement.review(time.Now().Add(time.Second))
	if who, _ := m.placement.Where(subnetA); who != "" {
		t.Errorf("asked again at once: %q", who)
	}
	m.placement.review(time.Now().Add(2 * shunned))
	if len(s.avoid) != 0 {
		t.Error("avoided for ever")
	}
}

// After a scout has refused no other is sent for a while, but it can be moved to.
func TestScoutRefused(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), func(c *Config) { c.Adapt.Move.Hold = time.Minute })
	ok(m, "")
	now := time.Now()
	m.placement.review(now)
	who, _ := m.placement.Where(subnetA)
	m.placement.Observe(subnetA, who, store.FetchReport{}, estimate.ErrRefused)
	s := m.subnets[subnetA]
	if who != bob.id.String() || len(s.avoid) > 0 || len(s.history) != 1 {
		t.Fatalf("scout %q, avoids %v, %d samples", who, s.avoid, len(s.history))
	}
	ok(m, "")
	m.placement.review(now.Add(time.Second))
	if who, _ := m.placement.Where(subnetA); who != "" {
		t.Errorf("asked again at once: %q", who)
	}
	m.placement.review(now.Add(time.Minute))
	if s.unit.To != bob.id.String() {
		t.Errorf("leaves for %q, want bob, who has been better for a minute", s.unit.To)
	}
}

// Back after a crash, the scout that was out is asked again before all else, for
// it gives the same answer.
func TestScoutOutlivesRestart(t *testing.T) {
	t.Parallel()
	db := openStore(t)
	dht := newDHT()
	change := func(c *Config) {
		c.Directory = directory{alice, bob}
		c.Strategy = reviewer{&script{next: choose(alice)}, prefer(bob)}
		c.Adapt = hasty()
	}
	m := join(t, alice, dht, db, change)
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	_, err := m.placement.Remote(t.Context(), subnetA, bob.id.String(),
		store.FetchRequest{URL: "http://a.test/0"})
	if !errors.Is(err, estimate.ErrNotSent) { // killed before Observe
		t.Fatal(err)
	}
	m = join(t, alice, dht, db, change)
	if !m.frontier.is(m.frontier.single, subnetA) {
		t.Error("others may be fetched meanwhile")
	}
	for range 2 {
		if who, hold := m.placement.Where(subnetA); who != bob.id.String() || hold {
			t.Fatalf("fetched by %q, held %v; want bob", who, hold)
		}
	}
	ok(m, bob.id.String())
	if who, hold := m.placement.Where(subnetA); who != "" || hold ||
		m.frontier.is(m.frontier.single,
			subnetA) {
		t.Errorf("after the answer: %q, held %v", who, hold)
	}
}

// A renewed lease tells where the servers are by the pages since, and a review
// knows of other subnets.
func TestRenewalRefreshesTheProxy(t *testing.T) {
	t.Parallel()
	known := assign.Delegations(assigntest.Delegations{})
	samples := func(e assign.Evidence) (assign.Step, error) {
		at := coords.Proxy{At: e.Candidates[0].At, Samples: len(e.Samples)}
		return assign.Step{Choice: alice.id.String(), Proxy: &at}, nil
	}
	seen := 0
	m := adaptive(t, func(e assign.Evidence) assign.Review {
		if e.Delegations != nil {
			seen++
		}
		return assign.Review{}
	}, func(c *Config) {
		c.OwnerMap = ownerMap{&known}
	})
	m.cfg.Strategy.(reviewer).next = samples
	s := m.subnets[subnetA]
	for _, n := range []int{2, 5, 5} {
		for len(s.history) < n {
			ok(m, "")
		}
		before := s.lease.Epoch
		m.leases.renew(t.Context(), s)
		l, err := lease.OpenLease(s.sealed)
		if err != nil || l.Epoch != before || l.Proxy == nil || l.Proxy.Samples != n {
			t.Fatalf("after %d pages: %+v, %v", n, l.Proxy, err)
		}
	}
	m.placement.review(time.Now())
	if seen != 1 {
		t.Error("the review knows nothing of others")
	}
}

// What has no work left stays, whoever is nearer.
func TestIdleStays(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), nil)
	m.frontier.load(subnetA, 0)
	for range 5 {
		both(m)
		m.placement.review(time.Now())
	}
	if _, hold := m.placement.Where(subnetA); hold {
		t.Error("it leaves")
	}
}

// Subnets do not all leave at once for the same peer.
func TestLeaveOneByOne(t *testing.T) {
	t.Parallel()
	m := adaptive(t, prefer(bob), nil)
	m.claim(subnetB)
	m.plant("b.test", subnetB, addrB, 3)
	m.frontier.load(subnetB, 3)
	now := time.Now()
	for i := range 5 {
		now = now.Add(10 * time.Millisecond)
		for _, s := range m.subnets {
			s.watch.Page()
			s.observe(coords.Sample{Peer: alice.id.String(), FirstByte: 10 * time.Millisecond,
				Taken: now.Add(time.Duration(i))})
			s.observe(coords.Sample{Peer: bob.id.String(), FirstByte: time.Millisecond,
				Taken: now.Add(time.Duration(i))})
		}
		m.placement.review(now)
	}
	leaving := 0
	for _, s := range m.subnets {
		if s.unit.To != "" {
			leaving++
		}
	}
	if leaving != 1 {
		t.Errorf("%d leave at once, want 1", leaving)
	}
	now = now.Add(leaveGap)
	for _, s := range m.subnets {
		s.watch.Page()
	}
	m.placement.review(now)
	for p, s := range m.subnets {
		if s.unit.To == "" {
			t.Errorf("%v stays", p)
		}
	}
}

// adaptivePair is a pair of which the owner has kept the subnet; bob becomes nearer.
func adaptivePair(t *testing.T, n int) *pair {
	t.Helper()
	p := newPair(t, nil)
	restart := p.restart
	p.restart = func() {
		restart()
		m := p.owner
		c := hasty()
		c.Move.Spend = 1e9
		m.cfg.Adapt, m.cfg.Strategy = c, reviewer{&script{next: choose(alice)}, prefer(bob)}
		m.Manager.cfg.Adapt, m.Manager.cfg.Strategy = m.cfg.Adapt, m.cfg.Strategy
	}
	p.restart()
	m := p.owner
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, n)
	m.plant("b.test", subnetA, addrA, 1)
	m.frontier.load(subnetA, int64(n))
	return p
}

// press observes pages until the subnet leaves.
func (p *pair) press(t *testing.T) {
	t.Helper()
	until(t, "it leaves", func() bool {
		both(p.owner)
		_, hold := p.owner.placement.Where(subnetA)
		return hold
	})
}

// The whole way: reviewed, confirmed, handed over, with what was measured.
func TestMove(t *testing.T) {
	t.Parallel()
	p := adaptivePair(t, 1200)
	p.owner.run()
	p.press(t)
	p.arrived(t, 1200)
	if p.owner.Stats().Moves != 1 {
		t.Errorf("%d moves counted", p.owner.Stats().Moves)
	}
	s := p.successor.subnets[subnetA]
	if len(s.watch.Moves) != 1 || len(s.history) == 0 ||
		time.Since(s.history.samples()[0].Taken) > time.Hour {
		t.Errorf("the successor knows of %d moves, %d samples", len(s.watch.Moves), len(s.history))
	}
	for _, i := range p.successor.List() {
		if i.Prefix == subnetA && i.Moves != 1 {
			t.Errorf("%+v", i)
		}
	}
}

// A successor that declines is left alone, and the subnet rests.
func TestMoveRefused(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	m := adaptive(t, prefer(bob), func(c *Config) {
		c.Sender = sendFunc(func(context.Context, peer.ID, handover.Offer, func() ([]byte, error)) (
			[]byte, error) {
			tries.Add(1)
			return nil, handover.ErrRefused
		})
	})
	m.run()
	until(t, "it was offered", func() bool { both(m); return tries.Load() == 1 })
	until(t, "it stays", func() bool { _, hold := m.placement.Where(subnetA); return !hold })
	for range 20 {
		both(m)
		m.placement.review(time.Now().Add(10 * time.Minute))
	}
	if n := tries.Load(); n != 1 || m.phase(subnetA) != store.PhaseOwned || m.Stats().Moves != 0 {
		t.Errorf("offered %d times, %v, %d moves", n, m.phase(subnetA), m.Stats().Moves)
	}
}

// Stopped between any two steps and started again, the subnet is whole, here or
// there.
func TestMoveOutlivesRestart(t *testing.T) {
	t.Parallel()
	for range 5 {
		p := adaptivePair(t, 10)
		stop := p.owner.run()
		p.press(t)
		stop()
		gone := !p.owner.Live(subnetA)
		p.restart()
		if p.owner.Live(subnetA) == gone {
			t.Fatal("the restart brought it back, or lost it")
		}
		p.successor.run() // publishes its lease
		if !gone {
			p.owner.frontier.load(subnetA, 10)
			if s, _ := p.owner.stored(subnetA); s.Phase == store.PhaseOwned &&
				p.owner.queued("a.test") != 10 {
				t.Fatalf("%d URLs queued", p.owner.queued("a.test"))
			}
			p.owner.run()
			until(t, "it leaves again", func() bool {
				both(p.owner)
				return !p.owner.Live(subnetA)
			})
		}
		p.arrived(t, 10)
	}
}

// Evidence by a clock that is off arrives by ours; what an older peer or a liar
// sends does no harm.
func TestEvidence(t *testing.T) {
	t.Parallel()
	theirs := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	e := evidence{Now: theirs, Moves: []time.Time{theirs.Add(-time.Hour), theirs.Add(time.Hour)}}
	e.Samples = []coords.Sample{{Peer: "a", Taken: theirs.Add(-time.Minute)}, {Peer: "b"}}
	raw, err := cbor.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	got := openEvidence(raw).shifted(now)
	if d := now.Sub(got.Samples[0].Taken); d != time.Minute || !got.Samples[1].Taken.IsZero() {
		t.Errorf("samples %+v", got.Samples)
	}
	if !got.Moves[0].Equal(now.Add(-time.Hour)) || got.Moves[1].After(now) {
		t.Errorf("moves %v", got.Moves)
	}
	many, err := cbor.Marshal(evidence{Moves: make([]time.Time, 10_000),
		Samples: make([]coords.Sample, 10_000)})
	if err != nil {
		t.Fatal(err)
	}
	if got := openEvidence(many); len(got.Moves) > assign.MaxMoves || len(got.Samples) > maxSent {
		t.Errorf("%d moves and %d samples", len(got.Moves), len(got.Samples))
	}
	for _, junk := range [][]byte{nil, {0xff}, []byte("junk"), {0x82, 0x01, 0x02}} {
		if got := openEvidence(junk); len(got.Samples) != 0 {
			t.Errorf("%x: %+v", junk, got)
		}
	}
}
