package witness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// event is one event of a schedule.
type event struct {
	At   time.Duration
	Kind string // see judge.apply
	A, B int    // of peers
}

func (e event) String() string { return fmt.Sprintf("%v %s %d %d", e.At, e.Kind, e.A, e.B) }

// schedule is a history of a network in which peer 0 owns the subnets and all other peers
// are candidates.
type schedule struct {
	Seed       uint64
	Peers      int
	Members    int
	Rates      []float64
	Offsets    []time.Duration
	Loss       float64
	RareDelay  time.Duration
	Duplicate  float64
	FarDelay   time.Duration // of peer 0
	EventsOnly bool          // candidates ask only in events
	Events     []event
}

const (
	simLast    = 4 * time.Minute
	watchEvery = 100 * time.Millisecond
)

var schedules = rapid.Custom(func(t *rapid.T) schedule {
	s := schedule{
		Seed:    rapid.Uint64().Draw(t, "seed"),
		Peers:   rapid.IntRange(3, 8).Draw(t, "peers"),
		Members: rapid.SampledFrom([]int{2, 4, 4}).Draw(t, "members"),
		Loss:    rapid.SampledFrom([]float64{0, 0, 0.05, 0.3}).Draw(t, "loss"),
		RareDelay: rapid.SampledFrom([]time.Duration{0, time.Second, 40 * time.Second}).Draw(t,
			"rare"),
		Duplicate: rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "twice"),
	}
	s.FarDelay = rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Second, 4 * time.Second}).Draw(t,
		"far")
	for range s.Peers {
		s.Rates = append(s.Rates, rapid.SampledFrom([]float64{0.99, 1, 1.01}).Draw(t, "rate"))
		s.Offsets = append(s.Offsets,
			time.Duration(rapid.IntRange(-300, 300).Draw(t, "offset"))*time.Second)
	}
	who := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, s.Peers-1))
	s.Events = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{
			At: time.Duration(rapid.IntRange(10, 220).Draw(t, "at")) * time.Second,
			Kind: rapid.SampledFrom([]string{"cut", "cut", "alone", "deaf", "mute", "heal", "pause",
				"resume", "kill", "start", "hide", "show"}).Draw(t, "kind"),
			A: who.Draw(t, "a"), B: who.Draw(t, "b"),
		}
	}), 0, 24).Draw(t, "events")
	return s
})

var simSubnets = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("198.51.100.0/24")}

// judge checks a schedule: which peer holds the quorum lease for a subnet, and which may
// take it over.
type judge struct {
	net   *fakeNet
	nodes []*node
	from  time.Time

	mu      sync.Mutex
	revoked map[netip.Prefix]time.Time // by the owner's clock; on its disk
	wins    []win
	dht     map[netip.Prefix]int // published leases
	sets    [][]byte
	hidden  map[int]bool
	pair    bool      // a witness set of one member is in force
	pairAt  time.Time // when there was one last; zero: never
	faults  []string
	excused []string      // what would be a fault if the guarantee were given
	held    time.Duration // how long the quorum lease held, to see that the test tests
	taken   int
}

// win is a subnet for which a candidate has the votes.
type win struct {
	subnet netip.Prefix
	by     int
	until  time.Time // by its clock
}

// owns reports whether the owner would fetch from a subnet now.
func (w *judge) owns(subnet netip.Prefix) bool {
	s := w.nodes[0].service()
	if s == nil {
		return false
	}
	now := w.nodes[0].clock()
	s.mu.Lock()
	ok, _ := s.quorumLease(now)
	s.mu.Unlock()
	_, revoked := w.revoked[subnet]
	return ok && !revoked
}

// promised reports whether the guarantee is given: not while a witness set of one member is in
// force, as in a network of two, nor until votes under such a set cannot be used any more.
func (w *judge) promised() bool {
	if s := w.nodes[0].service(); s != nil { // otherwise those on its disk are in force
		s.mu.Lock()
		w.pair = slices.ContainsFunc(s.owner.sets, func(p sealedSet) bool { return p.Pair() })
		s.mu.Unlock()
	}
	if w.pair {
		w.pairAt = time.Now()
	}
	return w.pairAt.IsZero() || time.Since(w.pairAt) > VoteWindow*11/10
}

// check looks for two peers that may act at once.
func (w *judge) check() {
	w.mu.Lock()
	defer w.mu.Unlock()
	faults := w.conflicts()
	if w.promised() {
		w.faults = append(w.faults, faults...)
	} else {
		w.excused = append(w.excused, faults...)
	}
}

// conflicts describes the peers that may act at once now.
func (w *judge) conflicts() (faults []string) {
	at := time.Since(w.from)
	for _, subnet := range simSubnets {
		owns := w.owns(subnet)
		by, taken := w.dht[subnet]
		if owns && taken {
			faults = append(faults, fmt.Sprintf("%v: the owner holds %v, %d has published", at,
				subnet, by))
		}
		var live []int
		for _, v := range w.wins {
			if v.subnet == subnet && w.nodes[v.by].clock().Before(v.until) {
				live = append(live, v.by)
			}
		}
		for i, v := range live {
			if owns {
				faults = append(faults, fmt.Sprintf("%v: the owner holds %v, %d has the votes",
					at, subnet, v))
			}
			if i > 0 && v != live[0] {
				faults = append(faults, fmt.Sprintf("%v: both %d and %d have the votes for %v",
					at, live[0], v, subnet))
			}
		}
	}
	return faults
}

// onRevoked is the owner's Node.Revoked.
func (w *judge) onRevoked(_ context.Context, list []Revocation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range list {
		w.revoked[r.Subnet] = w.nodes[0].clock()
	}
	return nil
}

// watch checks periodically, and lets the owner continue with subnets that no peer took.
func (w *judge) watch(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(watchEvery) {
		w.check()
		w.mu.Lock()
		now := w.nodes[0].clock()
		for subnet, at := range w.revoked {
			if _, taken := w.dht[subnet]; !taken && now.Sub(at) > ReviveAfter {
				delete(w.revoked, subnet)
			}
		}
		if w.promised() && w.owns(simSubnets[0]) {
			w.held += watchEvery
		}
		if s := w.nodes[0].service(); s != nil {
			if p := s.WitnessSet(); p != nil &&
				(len(w.sets) == 0 || string(w.sets[len(w.sets)-1]) != string(p)) {
				w.sets = append(w.sets, p)
			}
		}
		w.mu.Unlock()
	}
}

// compete has peer i try to take subnets over until ctx ends.
func (w *judge) compete(ctx context.Context, i int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	n := w.nodes[i]
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rnd.Int64N(int64(8 * time.Second))))
		subnet := simSubnets[rnd.IntN(len(simSubnets))]
		w.mu.Lock()
		_, taken := w.dht[subnet]
		var set []byte
		if k := len(w.sets); k > 0 {
			set = w.sets[k-1-rnd.IntN(min(k, 3))]
		}
		w.mu.Unlock()
		if set == nil || taken {
			continue
		}
		until, won := w.try(ctx, i, subnet, set)
		if !won {
			continue
		}
		late := time.Duration(rnd.Int64N(int64(60 * time.Second)))
		wg.Go(func() {
			time.Sleep(late)
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, taken := w.dht[subnet]; !taken && n.clock().Before(until) {
				w.dht[subnet] = i
				w.taken++
			}
		})
	}
}

// try has peer i request the votes, and checks if it gets them.
func (w *judge) try(
	ctx context.Context, i int, subnet netip.Prefix, set []byte,
) (until time.Time, won bool) {
	n := w.nodes[i]
	s := n.service()
	if s == nil {
		return until, false
	}
	tally, err := s.RequestVotes(ctx, w.nodes[0].id, set, []Proposal{{Subnet: subnet, Epoch: 2}})
	if _, ok := tally.Takeover(subnet); err != nil || !ok || !n.clock().Before(tally.Until) {
		return until, false
	}
	w.mu.Lock()
	w.wins = append(w.wins, win{subnet, i, tally.Until})
	w.mu.Unlock()
	w.check()
	return tally.Until, true
}

// At no time does the owner hold the quorum lease for a subnet for which another peer has
// the votes, or which it has taken, whatever the network, the clocks and the peers do. See
// also TestOneOwnerAtATimeMany.
func TestOneOwnerAtATime(t *testing.T) {
	t.Parallel()
	for seed := range 8 {
		s := schedules.Example(seed)
		var w *judge
		synctest.Test(t, func(t *testing.T) { w = s.run(t, mutation{}) })
		if len(w.faults) > 0 {
			t.Fatalf("schedule %+v: %s", s, strings.Join(w.faults[:min(len(w.faults), 3)], "\n"))
		}
	}
}

// An owner that believes that there is one other peer has one witness, as in a network of two:
// after a cut both act. While it knows a second one, the same schedule is safe.
func TestOwnerThatKnowsOnePeer(t *testing.T) {
	t.Parallel()
	s := exactSchedule(3, at(18, "deaf", 1, 0))
	s.EventsOnly, s.Rates = false, []float64{1.01, 0.99, 1}
	s.Offsets = []time.Duration{-152 * time.Second, 6 * time.Second, 139 * time.Second}
	s.Loss, s.Duplicate = 0.05, 0.2
	s.RareDelay, s.FarDelay = 40*time.Second, 4*time.Second
	for _, hidden := range []bool{false, true} {
		if hidden {
			s.Events = append(s.Events, at(13, "hide", 2, 0))
		}
		var w *judge
		synctest.Test(t, func(t *testing.T) { w = s.run(t, mutation{}) })
		if len(w.faults) > 0 || w.pair != hidden || (len(w.excused) > 0) != hidden {
			t.Errorf("peer 2 hidden: %v; one witness: %v, excused %d faults, not %d", hidden,
				w.pair, len(w.excused), len(w.faults))
		}
	}
}
