package testnet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"peerd/internal/order"
	"peerd/lab/emulate/wan"
)

// Scenarios are the names that Options.Scenario may have, after [M] 5.1: the bandwidth
// of the busiest peer falls to a fifth, the busiest peer is loaded, or all servers take
// longer to answer.
var Scenarios = []string{"bandwidth", "load", "server"}

const (
	// scenarioGap is the politeness gap. It is long, so that the rate of fetches is low and the
	// machine is no bottleneck.
	scenarioGap = 500 * time.Millisecond
	// minBandwidth and maxBandwidth bound the bandwidth of a place, bytes per second. They are
	// low, so that most of the time of a page is its transfer.
	minBandwidth, maxBandwidth = 60e3, 200e3
	bandwidthDivisor           = 5
	loadDelay                  = 500 * time.Millisecond
	serverDelay                = 5 * time.Second
	// settleTime is the time before the fault begins. The fault lasts for faultTime, and the
	// recovery is watched for the same time.
	settleTime   = 75 * time.Second
	faultTime    = 150 * time.Second
	recoveryTime = 150 * time.Second
	// clearFactor is the least ratio of the page time at the owner of an affected subnet to
	// that at the best other peer.
	clearFactor = 1 / 0.7
)

// scenarioPages returns the number of pages with which no site runs out of pages: the gap
// bounds the rate of each site, and the smallest site has a third of the mean number of pages.
func (o Options) scenarioPages() int {
	perSite := float64(settleTime+faultTime+recoveryTime) / float64(scenarioGap+
		100*time.Millisecond)
	return int(3 * perSite * float64(o.Sites))
}

// scenario is the state of a running scenario.
type scenario struct {
	run     *run
	network *wan.Network
	base    *wan.World
	peer    int       // affected by the fault; -1: the servers
	begin   time.Time // of the fault
	ended   time.Time // of the fault
	end     time.Time

	subnets map[netip.Prefix][]string // sample pages of each subnet
	owned   map[netip.Prefix]int      // owners when the fault began
	owners  map[netip.Prefix]int
	moves   []relocation
	before  time.Time // of the first look
}

// relocation is a decided subnet's change of owner.
type relocation struct {
	at       time.Time
	subnet   netip.Prefix
	from, to int
	needless bool
}

// runScenario runs a scenario during the crawl and returns its figures.
func (t *run) runScenario(ctx context.Context) (*Adaptation, error) {
	s := &scenario{run: t, network: t.network, base: t.network.World(), peer: -1,
		subnets: map[netip.Prefix][]string{}}
	if err := s.watch(ctx, settleTime); err != nil {
		return nil, err
	}
	s.owned = maps.Clone(s.owners)
	s.begin = time.Now()
	if s.run.o.Scenario != "server" {
		s.peer = s.busiest()
	}
	s.apply(true)
	if err := s.watch(ctx, faultTime); err != nil {
		return nil, err
	}
	s.ended = time.Now()
	s.apply(false)
	if err := s.watch(ctx, recoveryTime); err != nil {
		return nil, err
	}
	s.end = time.Now()
	return s.judge(), nil
}

// apply begins or ends the fault.
func (s *scenario) apply(on bool) {
	world := s.base
	switch {
	case s.peer < 0 && on:
		s.run.web.Slow(serverDelay)
	case s.peer < 0:
		s.run.web.Slow(0)
	case on:
		world = s.changed()
	}
	s.network.Change(world)
	if s.run.o.Progress != nil {
		word := map[bool]string{true: "begins", false: "is over"}[on]
		fmt.Fprintf(s.run.o.Progress, "%4.0f s: %s %s (peer %d)\n",
			time.Since(s.run.begin).Seconds(), s.run.o.Scenario, word, s.peer)
	}
}

// changed returns the world during the fault.
func (s *scenario) changed() *wan.World {
	if s.peer < 0 {
		return s.base
	}
	place := s.run.layout.PeerPlaces[s.peer]
	if s.run.o.Scenario == "load" {
		return s.base.Loaded(place, loadDelay)
	}
	return s.base.Slowed(place, bandwidthDivisor)
}

// watch observes the owners of subnets for a time.
func (s *scenario) watch(ctx context.Context, d time.Duration) error {
	if s.before.IsZero() {
		s.before = time.Now()
	}
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return nil
		case <-tick.C:
		}
		s.look()
		s.run.crawlProgress()
	}
}

// look records the owner of each decided subnet, and which subnets have moved.
func (s *scenario) look() {
	if s.owners == nil {
		s.owners = map[netip.Prefix]int{}
	}
	at := time.Now()
	for i, n := range s.run.peers.nodes {
		for _, row := range n.Subnets() {
			p, err := netip.ParsePrefix(row.Subnet)
			if err != nil || row.State != "owned" || row.Hosts == 0 {
				continue
			}
			if from, known := s.owners[p]; known && from != i {
				s.moves = append(s.moves, relocation{at: at, subnet: p, from: from, to: i,
					needless: !s.nearer(p, i, from)})
			}
			s.owners[p] = i
		}
	}
}

// nearer reports whether a peer is truly faster than another by at least a tenth, now or
// until a moment ago.
func (s *scenario) nearer(p netip.Prefix, peer, than int) bool {
	worlds := []*wan.World{s.network.World()}
	if since := time.Since(s.ended); !s.ended.IsZero() && since < 5*time.Second {
		worlds = append(worlds, s.changed())
	}
	for _, w := range worlds {
		if s.time(w, p, peer) < s.time(w, p, than)*9/10 {
			return true
		}
	}
	return false
}

// time returns the mean time of a page of a subnet at a peer.
func (s *scenario) time(w *wan.World, p netip.Prefix, peer int) time.Duration {
	pages := s.pages(p)
	var sum time.Duration
	for _, u := range pages {
		sum += s.run.web.PageTimeIn(w, s.run.layout.PeerPlaces[peer], u, true)
	}
	return sum / time.Duration(max(1, len(pages)))
}

// pages returns some pages of each site of a subnet.
func (s *scenario) pages(p netip.Prefix) []string {
	if all, ok := s.subnets[p]; ok {
		return all
	}
	const perSite = 40
	var origins []string
	for _, site := range s.run.web.Sites() {
		if p.Contains(site.Addrs[0]) {
			origins = append(origins, site.URL)
		}
	}
	counts := map[string]int{}
	var all []string
	for u := range s.run.web.Pages() {
		for _, o := range origins {
			if strings.HasPrefix(u, o) && counts[o] < perSite {
				counts[o]++
				all = append(all, u)
			}
		}
	}
	s.subnets[p] = all
	return all
}

// busiest returns the peer with the most subnets.
func (s *scenario) busiest() int {
	n := make([]int, len(s.run.peers.nodes))
	for _, owner := range s.owned {
		n[owner]++
	}
	return slices.Index(n, slices.Max(n))
}

// Adaptation is the result of a scenario. Times are seconds since the fault began or
// ended; negative ones were not reached.
type Adaptation struct {
	Scenario string `json:"scenario"`
	Peer     int    `json:"peer"`  // affected by the fault; -1: the servers
	Owned    int    `json:"owned"` // subnets of the peer when the fault began, or all subnets
	// Affected is the number of Owned for which another peer has become clearly faster: its
	// pages take at most 0.7 times as long.
	Affected int     `json:"affected"`
	Moved    float64 `json:"moved"` // share of Affected that left
	MovedIn2 float64 `json:"moved_in_2_min"`
	Moved50  float64 `json:"moved_50_s"`
	Moved90  float64 `json:"moved_90_s"`
	// Away is the number of moved subnets for which the peer is clearly faster again after its
	// recovery.
	Away        int     `json:"away"`
	Returned    float64 `json:"returned"` // share of Away
	ReturnedIn2 float64 `json:"returned_in_2_min"`
	Returned50  float64 `json:"returned_50_s"`
	Returned90  float64 `json:"returned_90_s"`
	// MovedBack is the share of all moved subnets that returned, whether or not the peer is
	// clearly faster.
	MovedBack float64 `json:"moved_back"`
	// Handovers is the number of moves of decided subnets during the run, Needless the number
	// of those to a peer that was not at least a tenth faster.
	Handovers           int     `json:"handovers"`
	Needless            int     `json:"needless"`
	SubnetHours         float64 `json:"subnet_hours"`
	NeedlessPer100Hours float64 `json:"needless_per_100_subnet_hours"`
	Scouts              int64   `json:"scouts"`
	ScoutShare          float64 `json:"scout_share"` // of all pages
}

// judge computes the figures. The times of fetches are those of the sites' log.
func (s *scenario) judge() *Adaptation {
	a := &Adaptation{Scenario: s.run.o.Scenario, Peer: s.peer}
	log := s.logs()
	var left, back []float64
	moved, movedBack := 0, 0
	for p, owner := range s.owned {
		if s.peer >= 0 && owner != s.peer {
			continue
		}
		a.Owned++
		best := s.fastest(s.changed(), p, owner)
		if s.peer < 0 || s.time(s.changed(), p, owner) < time.Duration(clearFactor*float64(best)) {
			continue
		}
		a.Affected++
		when, ok := since(log[p], s.begin, s.ended, func(peer int) bool { return peer != s.peer })
		if !ok {
			continue
		}
		moved++
		left = append(left, when.Seconds())
		returned, ok := since(log[p], s.ended, s.end, func(peer int) bool { return peer == s.peer })
		if ok {
			movedBack++
		}
		now := s.ownerAt(p, s.ended)
		if now == s.peer || s.time(s.base, p, now) < time.Duration(
			clearFactor*float64(s.time(s.base, p, s.peer))) {
			continue
		}
		a.Away++
		if ok {
			back = append(back, returned.Seconds())
		}
	}
	a.Moved, a.MovedIn2, a.Moved50, a.Moved90 = spans(left, a.Affected)
	a.Returned, a.ReturnedIn2, a.Returned50, a.Returned90 = spans(back, a.Away)
	if moved > 0 {
		a.MovedBack = float64(movedBack) / float64(moved)
	}
	first := s.before.Add(settleTime) // earlier moves correct the first decision
	for _, m := range s.moves {
		if m.at.Before(first) {
			continue
		}
		a.Handovers++
		if m.needless {
			a.Needless++
		}
	}
	a.SubnetHours = float64(len(s.owned)) * s.end.Sub(first).Hours()
	a.NeedlessPer100Hours = 100 * float64(a.Needless) / max(a.SubnetHours, 1e-9)
	var pages int64
	for _, n := range s.run.peers.nodes {
		st := n.Status()
		a.Scouts += st.Estimations.Scouts
		pages += st.PagesFetched
	}
	a.ScoutShare = float64(a.Scouts) / float64(max(1, pages))
	return a
}

// ownerAt returns the owner of a subnet at a time.
func (s *scenario) ownerAt(p netip.Prefix, at time.Time) int {
	owner := s.owned[p]
	for _, m := range s.moves {
		if m.subnet == p && m.at.After(s.begin) && m.at.Before(at) {
			owner = m.to
		}
	}
	return owner
}

// fastest returns the page time at the fastest peer other than but.
func (s *scenario) fastest(w *wan.World, p netip.Prefix, but int) time.Duration {
	best := time.Duration(1<<63 - 1)
	for i := range s.run.peers.nodes {
		if i != but {
			best = min(best, s.time(w, p, i))
		}
	}
	return best
}

// fetchOf is one fetch in a subnet, from the sites' log.
type fetchOf struct {
	at   time.Time
	peer int
}

// logs returns the sites' log by subnet.
func (s *scenario) logs() map[netip.Prefix][]fetchOf {
	peers := map[netip.Addr]int{}
	for i, a := range s.run.layout.PeerAddrs {
		peers[a] = i
	}
	out := map[netip.Prefix][]fetchOf{}
	for _, h := range s.run.web.Log() {
		if !h.Page {
			continue
		}
		p := netip.PrefixFrom(h.Addr, 24).Masked()
		out[p] = append(out[p], fetchOf{h.Start, peers[h.Peer]})
	}
	for _, all := range out {
		order.SortFunc(all, func(a, b fetchOf) int { return a.at.Compare(b.at) })
	}
	return out
}

// since returns how long after from the first fetch began from which on fetches fulfil holds,
// until to: the first one, and at least eight of every ten in a row. Up to two of ten may be
// those of scouts or late answers.
func since(all []fetchOf, from, to time.Time, holds func(peer int) bool) (time.Duration, bool) {
	const window, enough = 10, 8
	var in []fetchOf
	for _, f := range all {
		if !f.at.Before(from) && f.at.Before(to) {
			in = append(in, f)
		}
	}
	if len(in) < window {
		return 0, false
	}
	first := 0
	for i := range len(in) - window + 1 {
		good := 0
		for _, f := range in[i : i+window] {
			if holds(f.peer) {
				good++
			}
		}
		if good < enough {
			first = i + 1
		}
	}
	if first > len(in)-window {
		return 0, false
	}
	for !holds(in[first].peer) {
		first++
	}
	return in[first].at.Sub(from), true
}

// spans returns the share of n subnets that are in took, the share within two minutes, and the
// seconds after which a half and nine tenths of n were reached.
func spans(took []float64, n int) (all, in2, t50, t90 float64) {
	t50, t90 = -1, -1
	if n == 0 {
		return 0, 0, t50, t90
	}
	slices.Sort(took)
	quick := 0
	for i, x := range took {
		if x <= 120 {
			quick++
		}
		if t50 < 0 && 2*(i+1) >= n {
			t50 = x
		}
		if t90 < 0 && 10*(i+1) >= 9*n {
			t90 = x
		}
	}
	return float64(len(took)) / float64(n), float64(quick) / float64(n), t50, t90
}

// Table returns the figures as text.
func (a *Adaptation) Table() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s at peer %d", a.Scenario, a.Peer)
	line("  subnets       %d owned then, %d affected", a.Owned, a.Affected)
	line("  moved         %.0f %%, %.0f %% within 2 min; half after %.0f s, 90 %% after %.0f s",
		100*a.Moved, 100*a.MovedIn2, a.Moved50, a.Moved90)
	line("  returned      %.0f %% of the %d clearly nearer again, %.0f %% within 2 min; "+
		"half after %.0f s, 90 %% after %.0f s; %.0f %% of all that moved",
		100*a.Returned, a.Away, 100*a.ReturnedIn2, a.Returned50, a.Returned90, 100*a.MovedBack)
	line("  handovers     %d, %d needless, in %.1f subnet-hours: %.1f per 100",
		a.Handovers, a.Needless, a.SubnetHours, a.NeedlessPer100Hours)
	line("  scouts        %d, %.1f %% of pages", a.Scouts, 100*a.ScoutShare)
	return b.String()
}
