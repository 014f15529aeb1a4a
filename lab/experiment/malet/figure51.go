package malet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"peerd/lab/emulate/wan"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
)

func malet51() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-5.1", Title: "The busiest peer's bandwidth falls to a fifth, and comes back",
		Source: thesis + ", figures 5.1 to 5.3",
		Run: func(ctx context.Context, p experiment.Params, out experiment.Out) error {
			return disturb(ctx, p, out, disturbance{
				from: 33 * time.Minute, to: 80 * time.Minute, end: 140 * time.Minute, sites: 17,
				bandwidth: 0.2, nature: american(),
				claims: claims51,
			})
		},
	}
}

func malet54() experiment.Experiment {
	return experiment.Experiment{
		Name: "malet-5.4", Title: "The busiest peer is under load for a while", Source: thesis +
			", figures 5.4 and 5.5",
		Run: func(ctx context.Context, p experiment.Params, out experiment.Out) error {
			return disturb(ctx, p, out, disturbance{
				from: 36 * time.Minute, to: 76 * time.Minute, end: 100 * time.Minute, sites: 30,
				bandwidth: 1, lag: 1500 * time.Millisecond,
				nature: american(), claims: claims54,
			})
		},
	}
}

// disturbance describes a fault of the busiest peer.
type disturbance struct {
	from, to, end time.Duration
	sites         int
	bandwidth     float64       // share of the bandwidth during the fault
	lag           time.Duration // added to each answer
	nature        crawlsim.Nature
	claims        func(out experiment.Out, ours, geo disturbRow)
}

// american returns the nature of peers and servers of PlanetLab without spells of overload.
func american() crawlsim.Nature {
	n := quiet(crawlsim.PlanetLab())
	n.PeerBps, n.PeerBpsSigma, n.PeerLagMS, n.PeerFails = 1.2e6, 0.3, 20, 0.01
	return n
}

// disturbRow is the result of a strategy over all seeds.
type disturbRow struct {
	Strategy   string  `json:"strategy"`
	Share      float64 `json:"share_before"` // of the subnets that the busiest peer owned
	During     float64 `json:"share_during"` // at the end of the disturbance
	After      float64 `json:"share_after"`  // at the end
	Affected   int     `json:"affected"`     // subnets that would gain 15 % or more elsewhere
	Moved      float64 `json:"moved"`        // share of them that left
	Moved50    float64 `json:"moved50_s"`
	Moved90    float64 `json:"moved90_s"`
	ToReturn   int     `json:"to_return"` // of those that left, would gain 15 % by a return
	Returned   float64 `json:"returned"`
	Returned50 float64 `json:"returned50_s"`
	Returned90 float64 `json:"returned90_s"`
	Needless   float64 `json:"needless_per_100_subnet_hours"`
	Before     float64 `json:"p50_before_ms"`
	Within     float64 `json:"p50_during_ms"` // in the last three quarters of the disturbance
	Strayed    float64 `json:"strayed_ms"`    // of the busiest peer's own coordinate
}

// minuteRow is the state after a minute of the first seed.
type minuteRow struct {
	Strategy string  `json:"strategy"`
	Min      int     `json:"min"`
	Share    float64 `json:"share"`  // of the subnets, at the busiest peer
	Pages    int     `json:"pages"`  // fetched by it so far
	Median   float64 `json:"p50_ms"` // of the last 120 pages of all
}

// gains is the least saving, as a share of the time, of an affected subnet.
const gains = 0.15

// americanNames are the places of the servers, americanPeers those of two peers, and
// europeanNames those of the other peers.
var (
	americanNames = []string{"Seattle", "San Jose", "Dallas", "Chicago", "New York", "Miami"}
	americanPeers = []string{"Chicago", "New York"}
	europeanNames = []string{"London", "Madrid", "Frankfurt", "Milan", "Stockholm", "Warsaw"}
)

// stand creates the world of section 5.1.1: six peers in Europe and two in North America,
// servers in the United States, and a control in Europe that finds all servers. With --peers or
// --matrix it is any world, and any peer finds servers.
func (d disturbance) stand(
	p experiment.Params, seed uint64,
) (*crawlsim.World, func(int) int, error) {
	g, err := newGround(p, seed)
	if err != nil {
		return nil, nil, err
	}
	sites := p.Or(p.Sites, d.sites, d.sites)
	if p.Peers > 0 || p.Matrix != "" {
		return g.world(p.Or(p.Peers, 8, 8), sites, d.nature, seed), nil, nil
	}
	row := func(name string) int {
		return slices.IndexFunc(g.places, func(x wan.Place) bool { return x.Name == name })
	}
	var peers, servers []int
	for _, name := range slices.Concat(europeanNames, americanPeers) {
		peers = append(peers, row(name))
	}
	for i := range sites {
		servers = append(servers, row(americanNames[i%len(americanNames)]))
	}
	return crawlsim.NewWorldAt(g.net, g.places, peers, servers, d.nature, seed), func(int) int {
		return 0
	}, nil
}

// trial is one run of a disturbance.
type trial struct {
	row                disturbRow
	moved, returned    []float64 // s
	hours              float64   // subnet-hours
	needless           int
	minutes            []minuteRow
	busy               int
	before, during     []float64
	shares, low, later float64
}

func disturb(ctx context.Context, p experiment.Params, out experiment.Out, d disturbance) error {
	if p.Quick {
		d.from, d.to, d.end = d.from/4, d.to/4, d.end/4
	}
	seeds := p.Or(p.Seeds, 5, 1)
	names := []string{"proxy", "geo"}
	if p.Matrix != "" {
		names = names[:1]
		out.Note("A matrix has no places: geography is skipped.")
	}
	g := newStage(ctx, out, seeds*len(names))
	sums := map[string]*trial{}
	var minutes []minuteRow
	share := experiment.Plot{Name: "share", Title: "Subnets at the disturbed peer (first seed)",
		X: "minutes", Y: "share"}
	speed := experiment.Plot{Name: "speed",
		Title: "Median of the last 120 pages of all peers (first seed)", X: "minutes", Y: "ms"}
	for i := range seeds {
		busy := -1
		for _, name := range names {
			t, err := d.try(g, p, p.Seed+uint64(i), contenderNamed(name), busy)
			if err != nil {
				return err
			}
			busy = t.busy // proxy runs first; both have the same disturbed peer
			if sums[name] == nil {
				sums[name] = &trial{row: disturbRow{Strategy: name}}
			}
			sums[name].add(t)
			if i > 0 {
				continue
			}
			a, b := experiment.Series{Name: name}, experiment.Series{Name: name}
			for _, m := range t.minutes {
				minutes = append(minutes, m)
				a.X, a.Y = append(a.X, float64(m.Min)), append(a.Y, m.Share)
				b.X, b.Y = append(b.X, float64(m.Min)), append(b.Y, m.Median)
			}
			share.Series, speed.Series = append(share.Series, a), append(speed.Series, b)
		}
	}
	var rows []disturbRow
	for _, name := range names {
		r := sums[name].settle(float64(seeds))
		rows = append(rows, r)
		out.Row("summary", r)
	}
	for _, m := range minutes {
		out.Row("minutes", m)
	}
	out.Plot(share)
	out.Plot(speed)
	d.claims(out, rows[0], rows[len(rows)-1])
	out.Note(simulated)
	out.Note(
		"%d runs; disturbed from minute %.0f to %.0f. The politeness gap is that of real "+
			"peers: a second or ten download times. Affected subnets are those of the disturbed "+
			"peer that would in truth gain %.0f %% or more elsewhere; a move is needless if the "+
			"new owner is in truth not at least 5 %% faster.",
		seeds, d.from.Minutes(), d.to.Minutes(), 100*gains)
	return nil
}

// try runs one strategy. busy is the peer to disturb, or -1 for the busiest.
func (d disturbance) try(
	g *stage, p experiment.Params, seed uint64, who contender, busy int,
) (*trial, error) {
	w, finder, err := d.stand(p, seed)
	if err != nil {
		return nil, err
	}
	t := &trial{busy: busy}
	affected, back := map[int]bool{}, map[int]bool{}
	s, err := g.run(play{who: who, world: w, seed: seed,
		tune: func(c *crawlsim.Config) { c.Pages, c.End, c.Finder = 0, d.end, finder },
		hooks: func(s *crawlsim.Sim) {
			before := s.Coordinate(0)
			s.At(d.from, func() {
				if t.busy < 0 {
					t.busy = busiest(s, len(w.Peers), len(w.Peers)-len(americanPeers))
				}
				before = s.Coordinate(t.busy)
				t.shares = held(s, t.busy)
				s.Slow(t.busy, d.bandwidth, d.lag)
				for i, n := range s.Subnets() {
					if _, least := fastest(s, w, i, t.busy); n.Owner == t.busy &&
						float64(least) < (1-gains)*float64(s.Expected(t.busy, i)) {
						affected[i] = true
					}
				}
			})
			s.At(d.to, func() {
				t.low = held(s, t.busy)
				t.row.Strayed = flat(before, s.Coordinate(t.busy))
				s.Slow(t.busy, 1, 0)
				for i := range affected {
					n := s.Subnets()[i]
					if n.Owner != t.busy && float64(s.Expected(t.busy, i)) < (1-gains)*float64(
						s.Expected(n.Owner, i)) {
						back[i] = true
					}
				}
			})
			for at := time.Minute; at <= d.end; at += time.Minute {
				s.At(at, func() { t.look(s, who.name) })
			}
		}})
	if err != nil {
		return nil, err
	}
	t.later = held(s, t.busy)
	t.judge(s, d, affected, back)
	// Shares and pages are added here, because look does not know the disturbed peer yet.
	pages := make(map[int]int)
	for _, x := range s.Downloads() {
		if x.Peer == t.busy {
			pages[int(math.Ceil(x.At.Minutes()))]++
		}
	}
	sum := 0
	for i := range t.minutes {
		sum += pages[t.minutes[i].Min]
		t.minutes[i].Pages = sum
		t.minutes[i].Share = round(t.heldAt(s, time.Duration(t.minutes[i].Min)*time.Minute), 4)
	}
	return t, nil
}

// busiest returns the peer with the most subnets. If several have the most, it prefers peers
// from first on.
func busiest(s *crawlsim.Sim, peers, first int) (best int) {
	n := make([]int, peers)
	for _, x := range s.Subnets() {
		n[x.Owner]++
	}
	best = max(0, min(first, peers-1))
	for i := range n {
		if n[i] > n[best] {
			best = i
		}
	}
	return best
}

// held returns the share of the subnets that a peer owns.
func held(s *crawlsim.Sim, peer int) float64 {
	n := 0
	for _, x := range s.Subnets() {
		if x.Owner == peer {
			n++
		}
	}
	return float64(n) / float64(len(s.Subnets()))
}

// heldAt returns held at an earlier time, which it derives from the moves since.
func (t *trial) heldAt(s *crawlsim.Sim, at time.Duration) float64 {
	n := 0
	for _, x := range s.Subnets() {
		owner := x.Owner
		for _, m := range slices.Backward(x.Moves) {
			if m.At > at {
				owner = m.From
			}
		}
		if x.DoneAt <= at && owner == t.busy && x.Decided {
			n++
		}
	}
	return float64(n) / float64(len(s.Subnets()))
}

// look records a minute.
func (t *trial) look(s *crawlsim.Sim, name string) {
	downs := s.Downloads()
	var last []float64
	for _, d := range downs[max(0, len(downs)-120):] {
		if !d.Failed {
			last = append(last, ms(d.Took))
		}
	}
	m := minuteRow{Strategy: name, Min: int(s.Now().Minutes()),
		Median: round(quantile(sorted(last), 0.5), 1)}
	if len(last) == 0 {
		m.Median = math.NaN()
	}
	t.minutes = append(t.minutes, m)
}

// judge measures when the affected subnets left and returned, and the downloads before
// and during the disturbance.
func (t *trial) judge(s *crawlsim.Sim, d disturbance, affected, back map[int]bool) {
	t.row.Affected, t.row.ToReturn = len(affected), len(back)
	for i, n := range s.Subnets() {
		left, returned := math.NaN(), math.NaN()
		for _, m := range n.Moves {
			if m.From == t.busy && m.At >= d.from && m.At < d.to && math.IsNaN(left) {
				left = (m.At - d.from).Seconds()
			}
			if m.To == t.busy && m.At >= d.to && math.IsNaN(returned) {
				returned = (m.At - d.to).Seconds()
			}
			if m.Needless {
				t.needless++
			}
		}
		if affected[i] && !math.IsNaN(left) {
			t.moved = append(t.moved, left)
		}
		if back[i] && !math.IsNaN(returned) {
			t.returned = append(t.returned, returned)
		}
		t.hours += (d.end - n.DoneAt).Hours()
	}
	t.judgeDownloads(s, d)
}

// judgeDownloads collects the download times before the disturbance, and those of its
// last three quarters.
func (t *trial) judgeDownloads(s *crawlsim.Sim, d disturbance) {
	for _, x := range s.Downloads() {
		switch quarter := (d.to - d.from) / 4; {
		case x.Failed:
		case x.At >= d.from-3*quarter && x.At < d.from && x.At > 4*time.Minute:
			t.before = append(t.before, ms(x.Took))
		case x.At >= d.from+quarter && x.At < d.to:
			t.during = append(t.during, ms(x.Took))
		}
	}
}

// add adds the figures of o.
func (t *trial) add(o *trial) {
	t.moved, t.returned = append(t.moved, o.moved...), append(t.returned, o.returned...)
	t.before, t.during = append(t.before, o.before...), append(t.during, o.during...)
	t.row.Affected += o.row.Affected
	t.row.ToReturn += o.row.ToReturn
	t.row.Strayed = max(t.row.Strayed, o.row.Strayed)
	t.hours += o.hours
	t.needless += o.needless
	t.shares += o.shares
	t.low += o.low
	t.later += o.later
}

// settle computes the figures of n runs. The times are quantiles over all affected subnets: NaN
// if too few have moved.
func (t *trial) settle(n float64) disturbRow {
	r := t.row
	r.Share, r.During, r.After = round(t.shares/n, 3), round(t.low/n, 3), round(t.later/n, 3)
	r.Moved, r.Moved50, r.Moved90 = reached(t.moved, r.Affected)
	r.Returned, r.Returned50, r.Returned90 = reached(t.returned, r.ToReturn)
	r.Needless = round(100*float64(t.needless)/t.hours, 3)
	r.Before, r.Within = round(quantile(sorted(t.before), 0.5), 1),
		round(quantile(sorted(t.during), 0.5), 1)
	r.Strayed = round(r.Strayed, 1)
	return r
}

// reached returns the share of n that have a time, and the times at which a half and nine
// tenths of n were reached: NaN if never.
func reached(times []float64, n int) (share, half, most float64) {
	if n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	times = sorted(times)
	at := func(q float64) float64 {
		i := int(math.Ceil(q*float64(n))) - 1
		if i >= len(times) {
			return math.NaN()
		}
		return round(times[max(0, i)], 1)
	}
	return round(float64(len(times))/float64(n), 3), at(0.5), at(0.9)
}

// seconds returns a time as text, or "never".
func seconds(s float64) string {
	if math.IsNaN(s) {
		return "never"
	}
	return fmt.Sprintf("after %.0f s", s)
}

func claims51(out experiment.Out, ours, geo disturbRow) {
	source := thesis + ", 5.1.1: "
	out.Claim(source+"assignments to the affected peer stop", "7 minutes after the bandwidth fell",
		fmt.Sprintf("half of the %d affected subnets moved %s, 90 %% %s", ours.Affected,
			seconds(ours.Moved50), seconds(ours.Moved90)), ours.Moved90 <= 420)
	out.Claim(source+"and pick up again",
		"a little 5 minutes, sharply 35 minutes after it was restored",
		fmt.Sprintf("of %d that should, half returned %s, 90 %% %s", ours.ToReturn,
			seconds(ours.Returned50), seconds(ours.Returned90)), ours.Returned90 <= 2100)
	out.Claim(source+"proxy coordinates against geography during the low bandwidth",
		"faster from 12 minutes after it fell",
		fmt.Sprintf("median page %.0f ms against %.0f ms", ours.Within, geo.Within),
		ours.Within < geo.Within)
	out.Claim(source+"the affected peer's own coordinate",
		"does not change, since gossip is not slowed",
		fmt.Sprintf("strays by %.1f ms", ours.Strayed), ours.Strayed <= 5)
	flapping(out, ours)
}

func claims54(out experiment.Out, ours, geo disturbRow) {
	source := thesis + ", 5.1.2: "
	out.Claim(source+"the rate of assignment to the loaded peer falls",
		"2 minutes after the load began",
		fmt.Sprintf("half of the %d affected subnets moved %s, 90 %% %s", ours.Affected,
			seconds(ours.Moved50), seconds(ours.Moved90)), ours.Moved90 <= 120)
	out.Claim(source+"and picks up", "9 minutes after the load ended",
		fmt.Sprintf("of %d that should, half returned %s, 90 %% %s", ours.ToReturn,
			seconds(ours.Returned50), seconds(ours.Returned90)), ours.Returned90 <= 540)
	out.Claim(source+"proxy coordinates against geography under load", "perform better overall",
		fmt.Sprintf("median page %.0f ms against %.0f ms", ours.Within, geo.Within),
		ours.Within < geo.Within)
	flapping(out, ours)
}

// flapping adds the claim about needless moves.
func flapping(out experiment.Out, r disturbRow) {
	out.Claim("this project: no flapping", "at most 1 needless move in 100 subnet-hours",
		fmt.Sprintf("%.2f", r.Needless), r.Needless <= 1)
}
