package trap

import (
	"time"

	"peerd/store"
)

// Guard decides by a Config. It holds nothing that changes: any number of
// goroutines may use one, each with States of its own.
type Guard struct{ cfg Config }

// New returns a Guard, or every fault of cfg.
func New(cfg Config) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Guard{cfg: cfg}, nil
}

// Check returns what is wrong with u by itself, without memory: Length, Depth,
// Params, Repeat or None.
func (g *Guard) Check(u store.URL) Heuristic {
	if g.tooLong(u) {
		return Length
	}
	var f features
	f.look(u)
	return g.check(&f)
}

// Admit decides on u, which its host's owner never saw before and is about to
// queue; s is the state of that host. None means that u was counted and should
// be queued, anything else that it should be dropped and why: that is counted
// in s, and is the caller's to log. Times before now.Year() minus YearsBack or
// after it plus YearsAhead are far; nothing else depends on now.
//
// A URL that is offered again after it was admitted counts twice. The caller
// writes s in the transaction that queues u.
func (g *Guard) Admit(s *State, u store.URL, now time.Time) Heuristic {
	h := g.decide(s, u, now)
	if h == None {
		s.urls++
	} else {
		s.drops[h]++
	}
	s.dirty = true
	return h
}

func (g *Guard) decide(s *State, u store.URL, now time.Time) Heuristic {
	if g.tooLong(u) {
		return Length
	}
	var f features
	f.look(u)
	if h := g.check(&f); h != None {
		return h
	}
	var w watch
	g.watch(&w, &f, now)
	for _, c := range w.counts[:w.n] {
		if c.over(&s.table, w.numbers) {
			w.touch(&s.table)
			return c.why
		}
	}
	if g.cfg.On.Has(Quota) && s.urls >= uint64(g.cfg.Quota) && s.urls >= g.quota(s) {
		return Quota
	}
	for _, c := range w.counts[:w.n] {
		at := s.table.take(c.key)
		if at.n < 1<<32-1 {
			at.n++
		}
		if c.distinct {
			s.table.count(at, c.value)
		}
	}
	return None
}

func (g *Guard) tooLong(u store.URL) bool { return g.cfg.On.Has(Length) && len(u) > g.cfg.MaxLength }

// check are the heuristics without memory, less the length.
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

// quota is the number of URLs that s's host may have.
func (g *Guard) quota(s *State) uint64 {
	return uint64(g.cfg.Quota) * (1 + min(s.Domains(), uint64(g.cfg.MaxDomains)))
}

// Linked takes note that a page of host from links to host to, whose state is
// s. Only other registered domains count, each once.
func (g *Guard) Linked(s *State, to, from string) {
	domain := RegisteredDomain(from)
	if h := hash(domain); !s.linked.has(h) && domain != RegisteredDomain(to) {
		s.linked = s.linked.add(h)
		s.dirty = true
	}
}

// counted is one thing that is counted for a URL: URLs of a key, or their
// distinct values.
type counted struct {
	key      uint64
	value    uint64
	limit    int
	why      Heuristic
	distinct bool
	dates    uint64 // if not 0, the key of all URLs of the shape with dates
}

// over says whether the limit is reached. Dates are only dates if half the URLs
// of the shape, counted under numbers, have some: ids cut into folders of two
// digits look like dates now and then.
func (c counted) over(t *table, numbers uint64) bool {
	s := t.find(c.key)
	if s == nil || int64(s.n) < int64(c.limit) { // no more values than URLs
		return false
	}
	if c.distinct && !s.dist.over(c.value, c.limit) {
		return false
	}
	if c.dates != 0 {
		all, dates := t.find(numbers), t.find(c.dates)
		return all == nil || dates == nil || 2*uint64(dates.n) >= uint64(all.n)
	}
	return true
}

// watch is all that is counted for one URL.
type watch struct {
	counts  [maxTokens + 5]counted
	n       int
	numbers uint64 // key of the URLs of the shape
}

func (w *watch) add(c counted) {
	w.counts[w.n] = c
	w.n++
}

// touch marks what is counted as used: a trap must not be forgotten because its
// URLs are dropped.
func (w *watch) touch(t *table) {
	for _, c := range w.counts[:w.n] {
		if t.find(c.key) != nil {
			t.take(c.key)
		}
	}
}

// What keys are made of besides shapes: one heuristic may count two things.
const (
	kindNumbers = iota + 1
	kindDates
	kindFarDates
	kindSession
	kindToken
	kindFacets
	kindOrders
)

func key(kind, shape uint64) uint64 { return max(mix(shape+kind*0x9e3779b97f4a7c15), 1) }

// watch lists what is counted for f.
func (g *Guard) watch(w *watch, f *features, now time.Time) {
	on := g.cfg.On
	if f.digits && (on.Has(Numbers) || on.Has(Calendar)) {
		w.numbers = key(kindNumbers, f.shape)
		limit := g.cfg.MaxNumbers
		if !on.Has(Numbers) {
			limit = 1 << 40 // only counted
		}
		w.add(counted{key: w.numbers, limit: limit, why: Numbers})
	}
	if f.digits && on.Has(Calendar) {
		g.watchDate(w, f, now)
	}
	if on.Has(Session) {
		for _, t := range f.tokens[:f.ntokens] {
			c := counted{key: key(kindToken, t.name^f.path), value: t.value, limit: g.cfg.MaxTokens, why: Session, distinct: true}
			if t.session {
				c.key, c.limit = key(kindSession, t.name), g.cfg.MaxSessions
			}
			w.add(c)
		}
	}
	if on.Has(Facets) && f.options > 1 {
		w.add(counted{key: key(kindFacets, f.path), value: mix(f.shape), limit: g.cfg.MaxFacets, why: Facets, distinct: true})
		w.add(counted{key: key(kindOrders, f.path), value: mix(f.names), limit: g.cfg.MaxOrders, why: Facets, distinct: true})
	}
}

func (g *Guard) watchDate(w *watch, f *features, now time.Time) {
	d, ok := f.date()
	if !ok {
		return
	}
	all := key(kindDates, f.shape)
	w.add(counted{key: all, value: d.key(), limit: g.cfg.MaxDates, why: Calendar, distinct: true, dates: all})
	if year := now.Year(); d.year > year+g.cfg.YearsAhead || d.year < year-g.cfg.YearsBack {
		w.add(counted{
			key: key(kindFarDates, f.shape), value: d.key(), limit: g.cfg.MaxFarDates,
			why: Calendar, distinct: true, dates: all,
		})
	}
}
