package trap

import "peerd/store"

const (
	// one is a yield of 1.
	one = 1 << 20
	// A pattern is exhausted if its yield is less than a tenth.
	exhausted = one / 10
	// Averages lose nine tenths in limit·decayNum/decayDen pages without yield: ln 10.
	decayNum, decayDen = 23, 10
	// The yield of a pattern is the average over fewer pages than that of the host, so that
	// few pages suffice to show what a pattern is worth.
	patternShare = 8

	// unit is one page in a budget for closed sets, and gain the number of pages that are
	// added to it if a page has only links to pages of other kinds.
	unit, gain = 1 << 8, 4
	// facetSets is the number of sets of parameters that make a path faceted.
	facetSets = 16
)

// A Visit is a page of a host that was fetched for the first time.
type Visit struct {
	URL    store.URL
	Source store.Source // of the URL
	Text   Text
	// Links are the URLs of the host to which the page links, and Queued those that it added
	// to the queue.
	Links, Queued []store.URL
}

// Observe learns from a page. Its yield is 1 if its text is new, otherwise half of the
// highest yield of the patterns to which its new links belong. The yield of a pattern is
// the average of its last pages, initially 0; so patterns that only lead to each other
// have none. Patterns are a path with a set of parameters, and a folder. Also
// averaged, initially 1, are all pages of the host that were found on copies.
//
// Pages found on pages of the same shape, or of the same path with another query, use up
// the budget of the shape or path. Links to pages of other kinds that have yield restore it; that
// of a path also pages found elsewhere. The budget of a shape grows with the number of its pages
// found elsewhere, and, once a quarter is used, of its URLs to which pages of other shapes link.
func (g *Guard) Observe(s *State, v Visit) {
	var f features
	f.parse(v.URL)
	shape, path := key(kindClosed, f.shape), key(kindPath, f.path)
	best := uint32(0)
	var others, otherPaths uint64 // yields of links with another shape, or path
	for _, link := range v.Queued {
		var l features
		l.parse(link)
		y := s.yield(&l)
		best = max(best, y)
		if l.shape != f.shape {
			others += uint64(y)
		}
		if l.path != f.path {
			otherPaths += uint64(y)
		}
	}
	switch v.Text {
	case TextNew:
		g.average(s, &f, v.Source, one)
	case TextCopy:
		g.average(s, &f, v.Source, best/2)
	}
	n := uint64(max(len(v.Queued), 1)) * one / unit
	if f.marks > 0 {
		at := s.table.use(shape)
		if v.Source.Has(store.SourcePattern) {
			at.spend(unit, others/n)
		} else {
			at.spend(0, others/n)
			s.table.count(at, hash(string(v.URL)))
		}
		s.wary = s.wary || uint64(at.n) > uint64(g.cfg.MaxClosed)*unit/4
	}
	if f.params > 1 {
		if v.Source.Has(store.SourcePath) {
			s.table.use(path).spend(unit, otherPaths/n)
		} else if s.table.find(path) != nil {
			s.table.use(path).spend(0, otherPaths/n+unit)
		}
		if at := s.table.find(path); at != nil {
			s.table.count(at, mix(f.names))
		}
	}
	s.texts.links = min(s.texts.links+uint32(max(len(v.Queued), 1)), maxInterval)
	if s.wary {
		s.countLinks(&f, v.Links)
	}
	s.dirty = true
}

// countLinks counts the URLs of other shapes to which a page links, for their budgets.
func (s *State) countLinks(f *features, links []store.URL) {
	for _, link := range links {
		var l features
		l.parse(link)
		if l.marks == 0 || l.shape == f.shape {
			continue
		}
		if at := s.table.find(key(kindClosed, l.shape)); at != nil {
			s.table.count(at, hash(string(link)))
		}
	}
}

// average adds the yield of a page to the averages.
func (g *Guard) average(s *State, f *features, source store.Source, y uint32) {
	if f.marks > 0 || f.params > 0 {
		at := s.table.use(key(kindYield, f.names^f.path))
		at.n = average(at.n, y, g.cfg.MaxYield/patternShare)
	}
	if source.Has(store.SourceCopy) {
		at := s.table.use(key(kindFolder, f.folder))
		at.n = average(at.n, y, g.cfg.MaxYield/patternShare)
		s.lost = one - average(one-s.lost, y, g.cfg.MaxYield)
	}
}

// average returns the average of y and earlier values, of which the last limit count.
func average(old, y uint32, limit int) uint32 {
	den := int64(max(limit, 1)) * decayDen
	return uint32(int64(old) + (int64(y)-int64(old))*min(decayNum, den)/den)
}

// spend charges a budget, and restores it by links, in units, for links that lead elsewhere.
func (s *slot) spend(charge, links uint64) {
	n := uint64(s.n) + charge
	s.n = uint32(min(n-min(n, gain*links), 1<<32-1))
}

// yield returns the highest yield of the patterns of a URL.
func (s *State) yield(f *features) (y uint32) {
	for _, k := range []uint64{key(kindYield, f.names^f.path), key(kindFolder, f.folder)} {
		if at := s.table.find(k); at != nil {
			y = max(y, at.n)
		}
	}
	return y
}

// Exhausted decides about a queued URL: Yield, Closed or Facets is the reason not to fetch it
// now, None means that it should be fetched. The decision may change with each page that is
// observed.
func (g *Guard) Exhausted(s *State, u store.URL, source store.Source) Heuristic {
	if source == 0 {
		return None
	}
	var f features
	f.parse(u)
	on, budget := g.cfg.On, g.scaled(s, g.cfg.MaxClosed)*unit
	spent := func(kind, shape uint64) bool {
		at := s.table.find(key(kind, shape))
		switch {
		case at == nil || uint64(at.n) < budget:
			return false
		case kind == kindPath:
			return at.distinct.exceeds(mix(f.names), facetSets)
		}
		return float64(at.n) >= float64(budget)+gain*unit*at.distinct.count()
	}
	switch {
	case on.Has(Yield) && source.Has(store.SourceCopy) && one-s.lost < exhausted &&
		s.yield(&f) < exhausted:
		return Yield
	case on.Has(Closed) && source.Has(store.SourcePattern) && spent(kindClosed, f.shape):
		return Closed
	case on.Has(Facets) && source.Has(store.SourcePath) && f.params > 1 && spent(kindPath, f.path):
		return Facets
	}
	return None
}

// A Linker finds the Source of the links of one page.
type Linker struct {
	page   features
	host   string
	copied bool
}

// NewLinker returns a Linker for a page; copied says that it has no text of its own.
func NewLinker(page store.URL, copied bool) *Linker {
	l := &Linker{host: page.Host(), copied: copied}
	l.page.parse(page)
	return l
}

// Source returns the Source of a URL to which the page links.
func (l *Linker) Source(link store.URL) (from store.Source) {
	if link.Host() != l.host {
		return 0
	}
	if l.copied {
		from = store.SourceCopy
	}
	var f features
	f.parse(link)
	if f.marks > 0 && f.shape == l.page.shape {
		from |= store.SourcePattern
	}
	if f.params > 1 && f.path == l.page.path {
		from |= store.SourcePath
	}
	return from
}
