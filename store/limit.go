package store

import "time"

// Bounds of what another peer may say of a URL.
const (
	maxDepth = 1<<16 - 1
	maxTries = 255
	maxHops  = 255
)

func limit(n *int, most int) { *n = min(max(*n, 0), most) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Limit corrects what no correct owner sends to another peer.
func (e *Entry) Limit(now time.Time) {
	limit(&e.Depth, maxDepth)
	limit(&e.Tries, maxTries)
	limit(&e.Hops, maxHops)
	e.Kind &= KindSitemap | KindRevisit
	e.First = earlier(e.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (v *Visit) Limit(now time.Time) {
	limit(&v.Depth, maxDepth)
	limit(&v.Tries, maxTries)
	limit(&v.Hops, maxHops)
	v.Kind &= KindSitemap
	v.First = earlier(v.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (g *GivenUp) Limit(now time.Time) {
	limit(&g.Depth, maxDepth)
	limit(&g.Tries, maxTries)
	limit(&g.Hops, maxHops)
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
