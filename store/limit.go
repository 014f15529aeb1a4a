package store

import "time"

// Bounds of what another peer may say of a URL.
const (
	maxDepth = 1<<16 - 1
	maxTries = 255
	maxHops  = 255
)

func limit(n *int, most int) { *n = min(max(*n, 0), most) }

func limitCounts(depth, tries, hops *int) {
	limit(depth, maxDepth)
	limit(tries, maxTries)
	limit(hops, maxHops)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Limit corrects what no correct owner sends to another peer.
func (e *Entry) Limit(now time.Time) {
	limitCounts(&e.Depth, &e.Tries, &e.Hops)
	e.Kind &= KindSitemap | KindRevisit
	e.First = earlier(e.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (v *Visit) Limit(now time.Time) {
	limitCounts(&v.Depth, &v.Tries, &v.Hops)
	v.Kind &= KindSitemap
	v.First = earlier(v.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (g *GivenUp) Limit(now time.Time) {
	limitCounts(&g.Depth, &g.Tries, &g.Hops)
	g.Kind &= KindSitemap
	g.At, g.First = earlier(g.At, now), earlier(g.First, now)
	g.Error = CutErrorText(g.Error)
}

// Limit corrects what no correct owner sends to another peer.
func (p *Pending) Limit(now time.Time) {
	limit(&p.Finder, Finders-1)
	limit(&p.Depth, maxDepth)
	limit(&p.Hops, maxHops)
	p.Kind &= KindSitemap
	p.Found = earlier(p.Found, now)
}
