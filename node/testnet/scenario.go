package testnet

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"peerd/node/emulate/wan"
	"peerd/node/emulate/web"
)

// Scenarios are the names that Options.Scenario may have, after [M] 5.1: the
// busiest peer's bandwidth falls to a fifth, the busiest peer is loaded, and all
// servers take longer to answer.
var Scenarios = []string{"bandwidth", "load", "server"}

const (
	// scenarioGap is the politeness gap: long, so that few pages a second are
	// fetched and the machine itself is no bottleneck.
	scenarioGap = 500 * time.Millisecond
	// narrow and wide bound the bandwidth of a place, bytes per second: pages
	// take most of their time in transfer.
	narrow, wide = 60e3, 200e3
	slowedBy     = 5
	loadedBy     = 500 * time.Millisecond
	serversBy    = 5 * time.Second
	// settled is how long the peers have before anything happens; then it
	// happens for so long, and after that the recovery is watched as long.
	settled  = 75 * time.Second
	happens  = 150 * time.Second
	recovers = 150 * time.Second
	// clearly is how much slower than the best other peer the owner of an
	// affected subnet is, at least: by that factor.
	clearly = 1 / 0.7
)

// scenarioPages is how many pages a crawl needs so that no site runs out of
// them: each site's rate is bounded by the gap, and the smallest has a third of
// the mean.
func (o Options) scenarioPages() int {
	perSite := float64(settled+happens+recovers) / float64(scenarioGap+100*time.Millisecond)
	return int(3 * perSite * float64(o.Sites))
}

// scenario is one under way.
type scenario struct {
	t     *run
	wide  *wan.Network
	base  *wan.World
	peer  int       // to which it happens; -1: to the servers
	begin time.Time // when it happened
	again time.Time // when it was over
	end   time.Time

	subnets map[netip.Prefix][]string // pages by which each is judged
	owned   map[netip.Prefix]int      // at the begin
	now     map[netip.Prefix]int
	moves   []relocation
	before  time.Time // the first look
}

// relocation is a decided subnet's change of owner.
type relocation struct {
	at       time.Time
	subnet   netip.Prefix
	from, to int
	needless bool
}

// play lets a scenario happen during the crawl, and returns what came of it.
func (t *run) play(ctx context.Context) (*Adaptation, error) {
	s := &scenario{t: t, wide: t.wide, base: t.wide.World(), peer: -1, subnets: map[netip.Prefix][]string{}}
	if err := s.watch(ctx, settled); err != nil {
		return nil, err
	}
	s.owned = maps.Clone(s.now)
	s.begin = time.Now()
	if s.t.o.Scenario != "server" {
		s.peer = s.busiest()
	}
	s.happen(true)
	if err := s.watch(ctx, happens); err != nil {
		return nil, err
	}
	s.again = time.Now()
	s.happen(false)
	if err := s.watch(ctx, recovers); err != nil {
		return nil, err
	}
	s.end = time.Now()
	return s.judge(), nil
}

// happen lets it begin or end.
func (s *scenario) happen(on bool) {
	world := s.base
	switch {
	case s.peer < 0 && on:
		s.t.web.Slow(serversBy)
	case s.peer < 0:
		s.t.web.Slow(0)
	case on:
		world = s.changed()
	}
	s.wide.Change(world)
	if s.t.o.Progress != nil {
		word := map[bool]string{true: "begins", false: "is over"}[on]
		fmt.Fprintf(s.t.o.Progress, "%4.0f s: %s %s (peer %d)\n", time.Since(s.t.begin).Seconds(), s.t.o.Scenario, word, s.peer)
	}
}

// changed is the world while it happens.
func (s *scenario) changed() *wan.World {
	if s.peer < 0 {
		return s.base
	}
	place := s.t.layout.PeerPlaces[s.peer]
	if s.t.o.Scenario == "load" {
		return s.base.Loaded(place, loadedBy)
	}
	return s.base.Slowed(place, slowedBy)
}

// watch looks at who owns what until the time is over.
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
		s.t.progress()
	}
}

// look takes down who owns each decided subnet, and what has moved.
func (s *scenario) look() {
	if s.now == nil {
		s.now = map[netip.Prefix]int{}
	}
	at := time.Now()
	for i, n := range s.t.peers.nodes {
		for _, row := range n.Subnets() {
			p, err := netip.ParsePrefix(row.Subnet)
			if err != nil || row.State != "owned" || row.Hosts == 0 {
				continue
			}
			if from, known := s.now[p]; known && from != i {
				s.moves = append(s.moves, relocation{at: at, subnet: p, from: from, to: i, needless: !s.nearer(p, i, from)})
			}
			s.now[p] = i
		}
	}
}

// nearer says whether a peer is truly faster than another, as things stand or
// stood until a moment ago, by a tenth at least.
func (s *scenario) nearer(p netip.Prefix, peer, than int) bool {
	worlds := []*wan.World{s.wide.World()}
	if since := time.Since(s.again); !s.again.IsZero() && since < 5*time.Second {
		worlds = append(worlds, s.changed())
	}
	for _, w := range worlds {
		if s.time(w, p, peer) < s.time(w, p, than)*9/10 {
			return true
		}
	}
	return false
}

// time is the mean time of a page of a subnet at a peer.
func (s *scenario) time(w *wan.World, p netip.Prefix, peer int) time.Duration {
	pages := s.pages(p)
	var sum time.Duration
	for _, u := range pages {
		sum += s.t.web.PageTimeIn(w, s.t.layout.PeerPlaces[peer], u, true)
	}
	return sum / time.Duration(max(1, len(pages)))
}

// pages are some of each site of a subnet.
func (s *scenario) pages(p netip.Prefix) []string {
	if all, ok := s.subnets[p]; ok {
		return all
	}
	const perSite = 40
	var origins []string
	for _, site := range s.t.web.Sites() {
		if p.Contains(site.Addrs[0]) {
			origins = append(origins, site.URL)
		}
	}
	counts := map[string]int{}
	var all []string
	for u := range s.t.web.Pages() {
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

// busiest is the peer with the most subnets.
func (s *scenario) busiest() int {
	n := make([]int, len(s.t.peers.nodes))
	for _, owner := range s.owned {
		n[owner]++
	}
	return slices.Index(n, slices.Max(n))
}

// Adaptation is what a scenario came to. Times are seconds since it began, or
// was over; negative ones were not reached.
type Adaptation struct {
	Scenario string `json:"scenario"`
	Peer     int    `json:"peer"`  // to which it happened; -1: to the servers
	Owned    int    `json:"owned"` // subnets that the peer had then; all of them for servers
	// Affected are those of Owned for which another peer has become clearly
	// faster: its pages take at most 0.7 times as long.
	Affected int     `json:"affected"`
	Moved    float64 `json:"moved"` // share of Affected that left
	MovedIn2 float64 `json:"moved_in_2_min"`
	Moved50  float64 `json:"moved_50_s"`
	Moved90  float64 `json:"moved_90_s"`
	// Away are the moved ones for which the peer is the clearly faster one once
	// it has recovered.
	Away        int     `json:"away"`
	Returned    float64 `json:"returned"` // share of Away
	ReturnedIn2 float64 `json:"returned_in_2_min"`
	Returned50  float64 `json:"returned_50_s"`
	Returned90  float64 `json:"returned_90_s"`
	// MovedBack is the share of all that moved that came back, clearly or not.
	MovedBack float64 `json:"moved_back"`
	// Handovers are all moves of decided subnets during the run, Needless those to a
	// peer that was not at least a tenth faster.
	Handovers           int     `json:"handovers"`
	Needless            int     `json:"needless"`
	SubnetHours         float64 `json:"subnet_hours"`
	NeedlessPer100Hours float64 `json:"needless_per_100_subnet_hours"`
	Scouts              int64   `json:"scouts"`
	ScoutShare          float64 `json:"scout_share"` // of all pages
}

// judge computes the figures. Who fetched when is taken from the sites' log.
func (s *scenario) judge() *Adaptation {
	a := &Adaptation{Scenario: s.t.o.Scenario, Peer: s.peer}
	log := s.logs()
	var left, back []float64
	moved, movedBack := 0, 0
	for p, owner := range s.owned {
		if s.peer >= 0 && owner != s.peer {
			continue
		}
		a.Owned++
		best := s.fastest(s.changed(), p, owner)
		if s.peer < 0 || s.time(s.changed(), p, owner) < time.Duration(clearly*float64(best)) {
			continue
		}
		a.Affected++
		when, ok := since(log[p], s.begin, s.again, func(peer int) bool { return peer != s.peer })
		if !ok {
			continue
		}
		moved++
		left = append(left, when.Seconds())
		returned, ok := since(log[p], s.again, s.end, func(peer int) bool { return peer == s.peer })
		if ok {
			movedBack++
		}
		now := s.ownerAt(p, s.again)
		if now == s.peer || s.time(s.base, p, now) < time.Duration(clearly*float64(s.time(s.base, p, s.peer))) {
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
	first := s.before.Add(settled) // what moves before are corrections of the first decision
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
	for _, n := range s.t.peers.nodes {
		st := n.Status()
		a.Scouts += st.Estimations.Scouts
		pages += st.PagesFetched
	}
	a.ScoutShare = float64(a.Scouts) / float64(max(1, pages))
	return a
}

// ownerAt is who owned a subnet at a time.
func (s *scenario) ownerAt(p netip.Prefix, at time.Time) int {
	owner := s.owned[p]
	for _, m := range s.moves {
		if m.subnet == p && m.at.After(s.begin) && m.at.Before(at) {
			owner = m.to
		}
	}
	return owner
}

// fastest is the time of the best peer but one.
func (s *scenario) fastest(w *wan.World, p netip.Prefix, but int) time.Duration {
	best := time.Duration(1<<63 - 1)
	for i := range s.t.peers.nodes {
		if i != but {
			best = min(best, s.time(w, p, i))
		}
	}
	return best
}

// fetchOf is one page of a subnet in the sites' log.
type fetchOf struct {
	at   time.Time
	peer int
}

// logs sorts the sites' log by subnet.
func (s *scenario) logs() map[netip.Prefix][]fetchOf {
	peers := map[netip.Addr]int{}
	for i, a := range s.t.layout.PeerAddrs {
		peers[a] = i
	}
	out := map[netip.Prefix][]fetchOf{}
	var hits []web.Hit = s.t.web.Log()
	for _, h := range hits {
		if !h.Page {
			continue
		}
		p := netip.PrefixFrom(h.Addr, 24).Masked()
		out[p] = append(out[p], fetchOf{h.Start, peers[h.Peer]})
	}
	for _, all := range out {
		slices.SortFunc(all, func(a, b fetchOf) int { return a.at.Compare(b.at) })
	}
	return out
}

// since returns when, after from, the fetches began that fulfil a condition until
// the time to: eight of every ten in a row, the first one among them. Scouts and
// stragglers are the others.
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

// spans returns the share of n that were reached at all, and within two
// minutes, and after how many seconds a half and nine tenths of n were.
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

// Table is the figures for people.
func (a *Adaptation) Table() string {
	return fmt.Sprintf(`%s at peer %d
  subnets       %d owned then, %d affected
  moved         %.0f %%, %.0f %% within 2 min; half after %.0f s, 90 %% after %.0f s
  returned      %.0f %% of the %d clearly nearer again, %.0f %% within 2 min; half after %.0f s, 90 %% after %.0f s; %.0f %% of all that moved
  handovers     %d, %d needless, in %.1f subnet-hours: %.1f per 100
  scouts        %d, %.1f %% of pages
`, a.Scenario, a.Peer, a.Owned, a.Affected, 100*a.Moved, 100*a.MovedIn2, a.Moved50, a.Moved90,
		100*a.Returned, a.Away, 100*a.ReturnedIn2, a.Returned50, a.Returned90, 100*a.MovedBack,
		a.Handovers, a.Needless, a.SubnetHours, a.NeedlessPer100Hours, a.Scouts, 100*a.ScoutShare)
}
