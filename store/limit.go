package store

import (
	"time"

	"peerd/internal/clock"
)

// Bounds of what another peer may say of a URL.
const (
	maxDepth = 1<<16 - 1
	maxTries = 255
	maxHops  = 255
)

func limit(n *int, most int) { *n = min(max(*n, 0), most) }

// Limit corrects what no correct owner sends to another peer.
func (e *Entry) Limit(now time.Time) {
	limit(&e.Depth, maxDepth)
	limit(&e.Tries, maxTries)
	limit(&e.Hops, maxHops)
	e.Kind &= KindSitemap | KindRevisit
	e.First = clock.Earlier(e.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (v *Visit) Limit(now time.Time) {
	limit(&v.Depth, maxDepth)
	limit(&v.Tries, maxTries)
	limit(&v.Hops, maxHops)
	v.Kind &= KindSitemap
	v.First = clock.Earlier(v.First, now)
}

// Limit corrects what no correct owner sends to another peer.
func (g *GivenUp) Limit(now time.Time) {
	limit(&g.Depth, maxDepth)
	limit(&g.Tries, maxTries)
	limit(&g.Hops, maxHops)
	g.Kind &= KindSitemap
	g.At, g.First = clock.Earlier(g.At, now), clock.Earlier(g.First, now)
	g.Error = CutErrorText(g.Error)
}

// Limit corrects what no correct owner sends to another peer.
func (p *Pending) Limit(now time.Time) {
	limit(&p.Finder, Finders-1)
	limit(&p.Depth, maxDepth)
	limit(&p.Hops, maxHops)
	p.Kind &= KindSitemap
	p.Found = clock.Earlier(p.Found, now)
}
