package web

import (
	"iter"
	"net/http"
	"strconv"
)

// alias is a path that redirects.
type alias struct {
	status int
	to     ref
	full   bool // the Location is written as an absolute URL
}

// directFronts is the number of sites that the first page of site 0 links to. Any other
// site i is linked from the first page of site i−directFronts.
const directFronts = 16

// redirects are the statuses of the aliases, used in turn.
var redirects = []int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
	http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// joinSites adds links between the sites. All pages must exist.
func joinSites(sites []*site, seed uint64) {
	for _, s := range sites {
		s.addAliases()
		if s.id > 0 {
			front := sites[max(0, s.id-directFronts)]
			front.extra[0] = append(front.extra[0], ref{s, "/"})
		}
	}
	if len(sites) < 2 {
		return
	}
	for _, s := range sites {
		s.addForeign(sites, seed)
	}
	for _, s := range sites {
		d := newDice(seed, saltForeign, uint64(s.id))
		out := alias{http.StatusFound, sites[other(&d, s.id, len(sites))].somePage(&d), true}
		s.aliases["/out/partner"] = out
		s.extra[0] = append(s.extra[0], ref{s, "/out/partner"})
	}
}

// addAliases adds one redirect, or two in a row, to some leaves, which are only
// reachable over these.
func (s *site) addAliases() {
	s.aliases["/index.html"] = alias{http.StatusMovedPermanently, ref{s, "/"}, false}
	for k := 1; k < len(s.pages); k++ {
		if !s.isLeaf(k) || k%23 != 5 {
			continue
		}
		p := &s.pages[k]
		p.via = "/go/" + strconv.Itoa(k)
		s.aliases[p.via] = alias{redirects[k%len(redirects)], ref{s, p.key}, k%2 == 0}
		if k%3 == 0 {
			first := "/old/" + strconv.Itoa(k)
			s.aliases[first] = alias{http.StatusFound, ref{s, p.via}, false}
			p.via = first
		}
	}
}

// addForeign makes some leaves reachable only from another site. The page that links to
// one is never such a page itself.
func (s *site) addForeign(sites []*site, seed uint64) {
	for k := 1; k < len(s.pages); k++ {
		p := &s.pages[k]
		if !s.isLeaf(k) || !isForeign(k) || p.via != "" {
			continue
		}
		p.foreign = true
		d := newDice(seed, saltForeign, uint64(s.id), uint64(k))
		from := sites[other(&d, s.id, len(sites))]
		at := d.below(len(from.pages))
		if from.isLeaf(at) && isForeign(at) {
			at = 0
		}
		from.extra[int32(at)] = append(from.extra[int32(at)], ref{s, p.key})
	}
}

// Links yields pairs of pages, both canonical URLs, of which the first links to the second, perhaps
// over redirects: from them all pages can be reached. Pages have more links than these.
func (w *Web) Links() iter.Seq2[string, string] {
	return func(yield func(from, to string) bool) {
		for _, s := range w.sites {
			for k := range s.pages {
				from, to := s.children(k)
				for c := from; c < to; c++ {
					if !s.pages[c].foreign && !yield(s.urlOf(k), s.urlOf(c)) {
						return
					}
				}
				for _, r := range s.extra[int32(k)] {
					c, ok := r.site.index[r.key]
					if ok && !yield(s.urlOf(k), r.site.urlOf(int(c))) {
						return
					}
				}
			}
		}
	}
}

func (s *site) urlOf(k int) string { return s.origin + s.pages[k].key }

func isForeign(k int) bool { return k%41 == 7 }

// other draws a number below n other than id.
func other(d *dice, id, n int) int {
	i := d.below(n - 1)
	if i >= id {
		i++
	}
	return i
}
