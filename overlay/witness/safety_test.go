package witness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// event is one thing that happens to the network of a schedule.
type event struct {
	At   time.Duration
	Kind string // see world.happen
	A, B int    // of peers
}

func (e event) String() string { return fmt.Sprintf("%v %s %d %d", e.At, e.Kind, e.A, e.B) }

// schedule is one history of a network whose peer 0 owns the subnets and whose
// others all want them.
type schedule struct {
	Seed    uint64
	Peers   int
	Members int
	Rates   []float64
	Offsets []time.Duration
	Loss    float64
	Rare    time.Duration
	Twice   float64
	Far     time.Duration // of peer 0
	Quiet   bool          // nobody asks but in events
	Events  []event
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
		Rare:    rapid.SampledFrom([]time.Duration{0, time.Second, 40 * time.Second}).Draw(t, "rare"),
		Twice:   rapid.SampledFrom([]float64{0, 0.2}).Draw(t, "twice"),
	}
	s.Far = rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Second, 4 * time.Second}).Draw(t, "far")
	for range s.Peers {
		s.Rates = append(s.Rates, rapid.SampledFrom([]float64{0.99, 1, 1.01}).Draw(t, "rate"))
		s.Offsets = append(s.Offsets, time.Duration(rapid.IntRange(-300, 300).Draw(t, "offset"))*time.Second)
	}
	who := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, s.Peers-1))
	s.Events = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{
			At:   time.Duration(rapid.IntRange(10, 220).Draw(t, "at")) * time.Second,
			Kind: rapid.SampledFrom([]string{"cut", "cut", "alone", "deaf", "mute", "heal", "pause", "resume", "kill", "start", "hide", "show"}).Draw(t, "kind"),
			A:    who.Draw(t, "a"), B: who.Draw(t, "b"),
		}
	}), 0, 24).Draw(t, "events")
	return s
})

var simSubnets = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("198.51.100.0/24")}

// world judges a schedule: who holds the right for a subnet, and who might take it.
type world struct {
	net   *fakeNet
	nodes []*node
	from  time.Time

	mu      sync.Mutex
	revoked map[netip.Prefix]time.Time // by the owner's clock; on its disk
	wins    []win
	dht     map[netip.Prefix]int // published leases
	panels  [][]byte
	hidden  map[int]bool
	faults  []string
	held    time.Duration // how long the owner had the right, to see that tests test
	taken   int
}

// win is what a candidate may do until its window ends.
type win struct {
	subnet netip.Prefix
	by     int
	until  time.Time // by its clock
}

// owns reports whether the owner would fetch from a subnet now.
func (w *world) owns(subnet netip.Prefix) bool {
	s := w.nodes[0].service()
	if s == nil {
		return false
	}
	now := w.nodes[0].clock()
	s.mu.Lock()
	ok, _ := s.right(now)
	s.mu.Unlock()
	_, revoked := w.revoked[subnet]
	return ok && !revoked
}

// judge looks for two who may act at once.
func (w *world) judge() {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Since(w.from)
	for _, subnet := range simSubnets {
		owns := w.owns(subnet)
		by, taken := w.dht[subnet]
		if owns && taken {
			w.faults = append(w.faults, fmt.Sprintf("%v: the owner holds %v, %d has published", at, subnet, by))
		}
		var live []int
		for _, v := range w.wins {
			if v.subnet == subnet && w.nodes[v.by].clock().Before(v.until) {
				live = append(live, v.by)
			}
		}
		for i, v := range live {
			if owns {
				w.faults = append(w.faults, fmt.Sprintf("%v: the owner holds %v, %d has the votes", at, subnet, v))
			}
			if i > 0 && v != live[0] {
				w.faults = append(w.faults, fmt.Sprintf("%v: both %d and %d have the votes for %v", at, live[0], v, subnet))
			}
		}
	}
}

// tell is the owner's Config.Revoked.
func (w *world) tell(_ context.Context, list []Revocation) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range list {
		w.revoked[r.Subnet] = w.nodes[0].clock()
	}
	return nil
}

// watch judges all the time, and has the owner go on with what nobody took.
func (w *world) watch(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(watchEvery) {
		w.judge()
		w.mu.Lock()
		now := w.nodes[0].clock()
		for subnet, at := range w.revoked {
			if _, taken := w.dht[subnet]; !taken && now.Sub(at) > ReviveAfter {
				delete(w.revoked, subnet)
			}
		}
		if w.owns(simSubnets[0]) {
			w.held += watchEvery
		}
		if s := w.nodes[0].service(); s != nil {
			if p := s.Panel(); p != nil && (len(w.panels) == 0 || string(w.panels[len(w.panels)-1]) != string(p)) {
				w.panels = append(w.panels, p)
			}
		}
		w.mu.Unlock()
	}
}

// covet has peer i try to take subnets over until ctx ends.
func (w *world) covet(ctx context.Context, i int, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, uint64(i)))
	n := w.nodes[i]
	var wg sync.WaitGroup
	defer wg.Wait()
	for ctx.Err() == nil {
		time.Sleep(time.Duration(rnd.Int64N(int64(8 * time.Second))))
		subnet := simSubnets[rnd.IntN(len(simSubnets))]
		w.mu.Lock()
		_, taken := w.dht[subnet]
		var panel []byte
		if k := len(w.panels); k > 0 {
			panel = w.panels[k-1-rnd.IntN(min(k, 3))]
		}
		w.mu.Unlock()
		if panel == nil || taken {
			continue
		}
		until, won := w.try(ctx, i, subnet, panel)
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

// try has peer i ask for the votes, and judges if it gets them.
func (w *world) try(ctx context.Context, i int, subnet netip.Prefix, panel []byte) (until time.Time, won bool) {
	n := w.nodes[i]
	s := n.service()
	if s == nil {
		return until, false
	}
	tally, err := s.Ask(ctx, w.nodes[0].id, panel, []Step{{subnet, 2}})
	if _, ok := tally.Takeover(subnet); err != nil || !ok || !n.clock().Before(tally.Until) {
		return until, false
	}
	w.mu.Lock()
	w.wins = append(w.wins, win{subnet, i, tally.Until})
	w.mu.Unlock()
	w.judge()
	return tally.Until, true
}

// At no moment does the owner hold its right for a subnet that somebody else has
// the votes for, or has taken, whatever the network, the clocks and the peers do.
func TestNeverTwo(t *testing.T) {
	var held, taken, runs int
	rapid.Check(t, func(rt *rapid.T) {
		s := schedules.Draw(rt, "schedule")
		var w *world
		synctest.Test(t, func(t *testing.T) { w = s.run(t, sabotage{}) })
		if len(w.faults) > 0 {
			rt.Fatalf("%s", strings.Join(w.faults[:min(len(w.faults), 3)], "\n"))
		}
		runs, held, taken = runs+1, held+int(w.held.Seconds()), taken+w.taken
	})
	t.Logf("%d runs of %v: the owner held the right for %d s each, %d takeovers", runs, simLast, held/max(runs, 1), taken)
}
