package web

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// site is one web site. Its pages form a tree under "/", numbered breadth first: page k
// has the children k·branch+1 … k·branch+branch.
type site struct {
	id     int
	host   string
	origin string // http://host[:port]; set when the port is known
	shout  string // origin in upper case, as some authors write it
	served bool
	branch int
	robots robotsKind
	delay  time.Duration

	pages   []page
	index   map[string]int32 // key → page
	aliases map[string]alias
	extra   map[int32][]ref // links of a page in addition to the tree
}

// page is one page of a site.
type page struct {
	// key is the path and query in canonical form, as in a request line.
	key   string
	delay time.Duration
	size  int32        // intended size in bytes
	bytes atomic.Int32 // actual size, once rendered
	// via is the alias that all links to this page use, if any.
	via string
	// foreign marks a page that no page of its own site links to.
	foreign bool
}

// ref is the target of a link.
type ref struct {
	site *site
	key  string
}

// Sizes of pages in bytes, log-normal.
const (
	medianBytes, sigmaBytes = 9_000, 0.8
	minBytes, maxBytes      = 2_000, 60_000
)

// shares distributes pages over sites unevenly: the share of rank r is proportional to
// (r+1.5)^-0.6, so that the largest of 24 sites has a tenth. The ranks are drawn from the
// seed.
func shares(sites, pages int, seed uint64) []int {
	weights, sum := make([]float64, sites), 0.0
	for r := range weights {
		weights[r] = math.Pow(float64(r)+2.5, -0.6)
		sum += weights[r]
	}
	counts, left := make([]int, sites), pages-sites
	for r := range counts {
		extra := int(weights[r] / sum * float64(pages-sites))
		counts[r] = 1 + extra
		left -= extra
	}
	for r := 0; left > 0; r, left = (r+1)%sites, left-1 {
		counts[r]++
	}
	d := newDice(seed, saltSizes)
	for i := sites - 1; i > 0; i-- {
		j := d.below(i + 1)
		counts[i], counts[j] = counts[j], counts[i]
	}
	return counts
}

// newSite returns a site with a tree of n pages. It has a registrable domain of its own, as sites
// of different people do.
func newSite(id, n int, seed uint64, median time.Duration) *site {
	d := newDice(seed, saltSite, uint64(id))
	s := &site{
		id: id, host: fmt.Sprintf("site-%02d.test", id),
		branch: 6 + d.below(7), robots: robotsOf(id),
		pages: make([]page, n), index: make(map[string]int32, n),
		aliases: make(map[string]alias), extra: make(map[int32][]ref),
	}
	s.delay = time.Duration(d.logNormal(float64(median), 0.5, float64(median)/4,
		float64(median)*3.5))
	for k := range s.pages {
		s.initPage(k, seed)
	}
	return s
}

func (s *site) initPage(k int, seed uint64) {
	d := newDice(seed, saltPage, uint64(s.id), uint64(k))
	p := &s.pages[k]
	p.size = int32(d.logNormal(medianBytes, sigmaBytes, minBytes, maxBytes))
	p.delay = d.vary(s.delay)
	switch {
	case k == 0:
		p.key = "/"
	case s.robots != robotsNone && s.isLeaf(k) && k%29 == 11:
		p.key = openTree + d.name(k) + ".html" // allowed within a forbidden tree
	case s.isLeaf(k):
		p.key = s.dir(s.parent(k)) + d.leafName(k)
	default:
		p.key = s.dir(s.parent(k)) + d.name(k) + "/"
	}
	s.index[p.key] = int32(k)
}

func (s *site) parent(k int) int  { return (k - 1) / s.branch }
func (s *site) isLeaf(k int) bool { return k*s.branch+1 >= len(s.pages) }

// children returns the numbers of page k's children as a half-open range.
func (s *site) children(k int) (from, to int) {
	return min(k*s.branch+1, len(s.pages)), min((k+1)*s.branch+1, len(s.pages))
}

// dir returns the directory of which page k, an inner page, is the index.
func (s *site) dir(k int) string { return s.pages[k].key }

// name returns a path segment that no sibling has.
func (d *dice) name(k int) string {
	return names[d.below(len(names))] + "-" + strconv.Itoa(k)
}

// leafName returns the last part of a leaf's path, in one of several common styles.
func (d *dice) leafName(k int) string {
	n := d.name(k)
	switch d.below(16) {
	case 0:
		return "article.php?id=" + strconv.Itoa(k) + "&lang=en"
	case 1:
		return "~" + n + "/"
	case 2:
		return "old%20" + n + ".html"
	case 3:
		return "caf%C3%A9-" + n + ".html"
	case 4, 5, 6, 7:
		return n
	default:
		return n + ".html"
	}
}

// linkTo returns the target of a link to page k: the page or its alias.
func (s *site) linkTo(k int) ref {
	if p := &s.pages[k]; p.via != "" {
		return ref{s, p.via}
	}
	return ref{s, s.pages[k].key}
}

// somePage draws a page that any page may link to.
func (s *site) somePage(d *dice) ref {
	for range 8 {
		if k := d.below(len(s.pages)); !s.pages[k].foreign {
			return s.linkTo(k)
		}
	}
	return ref{s, "/"}
}
