package malet

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// The parameters of Malet's proxy coordinates (2009, sections 3.1.2 and 3.3.1,
// with Pyxida's defaults).
const (
	thesisUpdates = 300 // pi: "300 is the upper bound on the number of updates"
	thesisGain    = 0.25
	thesisErrGain = 0.10
	thesisWindow  = 16 // of the moving median
)

// onePass is the algorithm of Malet's thesis: it feeds the times of downloads by randomly
// chosen peers, one after the other, into Vivaldi as if they were round trips, until the error
// of the server is theta. Then it chooses the nearest peer. (In the thesis, a batch of servers
// waits until its median error is small enough; here each server is separate.)
type onePass struct {
	theta float64
	most  int
	// places holds the state of each server, by subnet.
	places map[netip.Prefix]*placed
}

// placed is the state of a server's updates.
type placed struct {
	at   coords.Coordinate
	seen int // number of samples used
	used int
	last map[string][]float64 // times by peer, ms, the latest one last
}

func newOnePass(theta float64, most int) onePass {
	return onePass{theta, most, map[netip.Prefix]*placed{}}
}

func (onePass) Name() string { return "vivaldi" }

// Next uses the samples that are new since the last call.
func (v onePass) Next(e assign.Evidence) (assign.Step, error) {
	if err := e.Validate(); err != nil {
		return assign.Step{}, err
	}
	open := slices.DeleteFunc(slices.Clone(e.Candidates), func(c assign.Candidate) bool {
		return e.Exclude[c.ID]
	})
	if len(open) == 0 {
		return assign.Step{}, assign.ErrNoCandidate
	}
	slices.SortFunc(open, func(a, b assign.Candidate) int { return strings.Compare(a.ID, b.ID) })
	p := v.update(e)
	if e.CanProbe && p.at.Error > v.theta && len(e.Samples) < v.most {
		h := fnv.New64a()
		text, _ := e.Subnet.MarshalText()
		_, _ = h.Write(text)
		rng := rand.New(rand.NewPCG(h.Sum64(), uint64(len(e.Samples))))
		return assign.Step{Probe: open[rng.IntN(len(open))].ID}, nil
	}
	delete(v.places, e.Subnet)
	best, least := open[0].ID, math.Inf(1)
	if p.used == 0 {
		if !e.Exclude[e.Self] {
			best = e.Self
		}
		return assign.Step{Choice: best}, nil
	}
	for _, c := range open {
		d := p.at.Distance(c.At) + float64(c.Wait)/float64(time.Millisecond)
		if d < least {
			best, least = c.ID, d
		}
	}
	return assign.Step{Choice: best, Proxy: &coords.Proxy{At: p.at, Error: p.at.Error, Scale: 1,
		Samples: p.used}}, nil
}

// update feeds the new samples of e into Vivaldi.
func (v onePass) update(e assign.Evidence) *placed {
	dims := len(e.Candidates[0].At.Vec)
	p := v.places[e.Subnet]
	if p == nil || p.seen > len(e.Samples) {
		p = &placed{at: coords.Coordinate{Vec: make([]float64, dims), Height: 0.1, Error: 1},
			last: map[string][]float64{}}
		v.places[e.Subnet] = p
	}
	where := make(map[string]coords.Coordinate, len(e.Candidates))
	for _, c := range e.Candidates {
		where[c.ID] = c.At
	}
	for _, s := range e.Samples[p.seen:] {
		p.seen++
		peer, ok := where[s.Peer]
		if s.Failed || !ok || s.Validate(dims) != nil {
			continue
		}
		took := float64(s.Connect+s.FirstByte+s.Body) / float64(time.Millisecond)
		w := append(p.last[s.Peer], took)
		w = w[max(0, len(w)-thesisWindow):]
		p.last[s.Peer] = w
		sorted := slices.Sorted(slices.Values(w))
		spring(&p.at, peer, sorted[(len(sorted)-1)/2])
		p.used++
	}
	return p
}

// spring makes one update (Dabek et al. 2004, figure 3, with heights).
func spring(at *coords.Coordinate, peer coords.Coordinate, ms float64) {
	distance := at.Distance(peer)
	weight := at.Error / (at.Error + max(peer.Error, 0.01))
	relative := math.Abs(distance-ms) / max(ms, 1)
	at.Error = min(1, relative*thesisErrGain*weight+at.Error*(1-thesisErrGain*weight))
	force := thesisGain * weight * (ms - distance)
	flat := 0.0
	for i := range at.Vec {
		flat += (at.Vec[i] - peer.Vec[i]) * (at.Vec[i] - peer.Vec[i])
	}
	flat = math.Sqrt(flat)
	norm := max(distance, 1e-6)
	for i := range at.Vec {
		direction := (at.Vec[i] - peer.Vec[i]) / norm
		if flat < 1e-6 {
			direction = 0
			if i == 0 {
				direction = 1
			}
		}
		at.Vec[i] += force * direction
	}
	at.Height = max(0.1, at.Height+force*(at.Height+peer.Height)/norm)
}
