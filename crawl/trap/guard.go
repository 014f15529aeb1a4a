package trap

import (
	"peerd/crawl/canon"
	"peerd/store"
)

// Guard applies a Config. It is immutable and safe for concurrent use with different
// States.
type Guard struct{ cfg Config }

// New returns a Guard, or an error that lists every fault of cfg.
func New(cfg Config) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Guard{cfg: cfg}, nil
}

// Admit decides about u, a URL that was never seen before and is about to be queued; s is
// the state of its host. None means that u was counted and should be queued. Any other
// result is the reason to drop it; it is counted in s, and the caller may log it.
//
// A URL that is offered again after it was admitted counts twice. The caller stores s in
// the transaction that queues u.
func (g *Guard) Admit(s *State, u store.URL) Heuristic {
	h := g.decide(s, u)
	if h == None {
		s.urls++
	} else {
		s.drops[h]++
	}
	s.dirty = true
	return h
}

func (g *Guard) decide(s *State, u store.URL) Heuristic {
	if g.cfg.On.Has(Length) && len(u) > g.cfg.MaxLength {
		return Length
	}
	var f features
	f.parse(u)
	if h := g.check(&f); h != None {
		return h
	}
	var w counters
	g.collectCounters(&w, &f)
	for _, c := range w.list[:w.n] {
		if c.exceeded(&s.table) {
			w.touch(&s.table)
			return c.reason
		}
	}
	if g.cfg.On.Has(Quota) && s.urls >= g.scaled(s, g.cfg.Quota) {
		return Quota
	}
	for _, c := range w.list[:w.n] {
		at := s.table.use(c.key)
		if at.n < 1<<32-1 {
			at.n++
		}
		s.table.count(at, c.value)
	}
	return None
}

// check applies the heuristics that need no state, except the length.
func (g *Guard) check(f *features) Heuristic {
	on := g.cfg.On
	switch {
	case on.Has(Depth) && f.segments > g.cfg.MaxDepth:
		return Depth
	case on.Has(Params) && f.params > g.cfg.MaxParams:
		return Params
	case on.Has(Repeat) && f.repeats(g.cfg.MaxRepeat):
		return Repeat
	}
	return None
}

// scaled returns a limit of the host of s, which grows with the domains that link to it.
func (g *Guard) scaled(s *State, limit int) uint64 {
	if s.linked == nil {
		return uint64(limit)
	}
	return uint64(limit) * (1 + min(s.Domains(), uint64(g.cfg.MaxDomains)))
}

// AddLink records in s, the state of host to, that a page of host from links to it. Only
// other registered domains count, each once.
func (g *Guard) AddLink(s *State, to, from string) {
	domain := canon.RegisteredDomain(from)
	if h := hash(domain); !s.linked.has(h) && domain != canon.RegisteredDomain(to) {
		s.linked = s.linked.add(h)
		s.dirty = true
	}
}

// counter counts the distinct values of a key.
type counter struct {
	key    uint64
	value  uint64
	limit  int
	reason Heuristic
}

// exceeded reports whether the limit is reached.
func (c counter) exceeded(t *table) bool {
	s := t.find(c.key) // never more values than URLs
	return s != nil && int64(s.n) >= int64(c.limit) && s.distinct.exceeds(c.value, c.limit)
}

// counters are all items to count for one URL.
type counters struct {
	list [maxTokens + 1]counter
	n    int
}

func (w *counters) add(c counter) {
	w.list[w.n] = c
	w.n++
}

// touch marks the counters as used. Otherwise a trap would be forgotten because its URLs
// are dropped.
func (w *counters) touch(t *table) {
	for _, c := range w.list[:w.n] {
		if t.find(c.key) != nil {
			t.use(c.key)
		}
	}
}

// Kinds of slots. Keys combine them with shapes because one shape may have several slots.
const (
	kindSession = iota + 1
	kindToken
	kindFacets
	kindYield  // pages of a path with a set of parameters
	kindFolder // pages of a folder that were found on copies
	kindClosed // pages of a shape that were found on pages of the same shape
	kindPath   // pages of a path with a query that were found on pages of the same path
)

func key(kind, shape uint64) uint64 { return max(mix(shape+kind*0x9e3779b97f4a7c15), 1) }

// collectCounters adds the counters of f to w.
func (g *Guard) collectCounters(w *counters, f *features) {
	on := g.cfg.On
	if on.Has(Session) {
		for _, t := range f.tokens[:f.ntokens] {
			c := counter{
				key: key(kindToken, t.name^f.path), value: t.value, limit: g.cfg.MaxTokens,
				reason: Session,
			}
			if t.session {
				c.key, c.limit = key(kindSession, t.name), g.cfg.MaxSessions
			}
			w.add(c)
		}
	}
	if on.Has(Facets) && f.options > 1 {
		w.add(counter{
			key: key(kindFacets, f.path), value: mix(f.shape), limit: g.cfg.MaxFacets,
			reason: Facets,
		})
	}
}
