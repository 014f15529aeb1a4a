package crawl

import (
	"errors"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/similar"
	"peerd/store"
)

// ContentRules say what is done about different URLs with the same content.
type ContentRules struct {
	// Exact, Near and SoftNotFound mark pages; the links of soft 404s are not
	// followed.
	Exact, Near, SoftNotFound bool
	// Mirrors marks the pages of a host that has shown to mirror another of
	// ours, and does not follow their links.
	Mirrors bool
	// MaxCopies is the number of pages of one host with one body from which on
	// the links of further copies are not followed; 0: they always are.
	MaxCopies int
}

// off says that nothing is looked for.
func (r ContentRules) off() bool {
	return !r.Exact && !r.Near && !r.SoftNotFound && !r.Mirrors && r.MaxCopies == 0
}

// The names under which the content rules count.
const (
	countDuplicate = "duplicate"
	countNear      = "near_duplicate"
	countSoft      = "soft_404"
	countHops      = "redirects" // chains longer than maxHops
	countLinks     = "links"     // pages with more than maxLinkBytes of them
	countMirror    = "mirror"
	countCut       = "copies" // pages whose links were not followed for MaxCopies
)

const (
	// contentHosts is how many hosts' contents are remembered at once, and
	// printsHeld how many pages of each: 10 MiB if all of them have as many.
	contentHosts = 256
	printsHeld   = 512
)

// contents remembers what the last pages of each host were like. It is memory
// only: after a restart the first copy of a page is not known for one.
type contents struct {
	mu    sync.Mutex
	hosts *lru.Cache[string, *hostContents]
	// paths says which host had a path first, and what was there.
	paths   *lru.Cache[store.Digest, atPath]
	mirrors *lru.Cache[[2]string, *similar.Mirror]
}

// hostContents is what is known of one host, used under contents.mu.
type hostContents struct {
	clusters similar.Clusters
	prints   *similar.Index
}

// atPath is the page of one host at a path.
type atPath struct {
	host   string
	digest store.Digest
}

const (
	// pathsHeld and mirrorsHeld are what is remembered in search of mirrors:
	// some 8 MiB.
	pathsHeld, mirrorsHeld = 1 << 16, 4096
	// sameOf the last comparedOf pages at equal paths are equal at a mirror.
	sameOf, comparedOf = 15, 16
)

func newContents() *contents {
	hosts, err := lru.New[string, *hostContents](contentHosts)
	paths, err2 := lru.New[store.Digest, atPath](pathsHeld)
	mirrors, err3 := lru.New[[2]string, *similar.Mirror](mirrorsHeld)
	if err := errors.Join(err, err2, err3); err != nil {
		panic(err) // only for sizes <= 0
	}
	return &contents{hosts: hosts, paths: paths, mirrors: mirrors}
}

func (s *contents) of(host string) *hostContents {
	h, ok := s.hosts.Get(host)
	if !ok {
		h = &hostContents{prints: similar.NewIndex(printsHeld)}
		s.hosts.Add(strings.Clone(host), h) // else it holds its whole URL
	}
	return h
}

// forget forgets a host's pages, as a restart does: what was remembered of an
// answer that could not be kept would make it a copy of itself.
func (s *contents) forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts.Remove(host)
}

// mirrored compares a page with that of another host at the same path, if there
// was one, and says whether its host is a mirror.
func (s *contents) mirrored(u store.URL, d store.Digest) bool {
	host, path := u.Host(), u[len(u.Origin()):].Digest()
	first, ok := s.paths.Get(path)
	if !ok {
		s.paths.Add(path, atPath{strings.Clone(host), d})
		return false
	}
	if first.host == host {
		return false
	}
	pair := [2]string{first.host, strings.Clone(host)}
	m, ok := s.mirrors.Get(pair)
	if !ok {
		m = &similar.Mirror{}
		s.mirrors.Add(pair, m)
	}
	m.Compare(first.digest, d)
	return m.Is(sameOf, comparedOf)
}

// compare marks a page that is like another of its host, and drops its links
// if there is no sense in following them. A page that is looked at again is
// compared with itself alone: if it is the same, its links were followed, or
// not, when it was first seen. It is called once an answer that is to be
// committed, because it remembers it.
func (c *Crawler) compare(got *fetched) error {
	if !isPage(got.page.Outcome) {
		return nil
	}
	content := &got.report.Content
	if got.kind.Revisit() {
		old, err := c.kept(got.page.URL)
		if err == nil && isPage(old.Outcome) && old.Digest == content.Digest {
			got.same, got.links = true, nil
		}
		return err
	}
	if r := c.cfg.Rules.Content; got.kind == store.KindPage && !r.off() {
		c.mark(got, content, r)
	}
	return nil
}

// mark is compare for a page that is new.
func (c *Crawler) mark(got *fetched, content *store.Content, r ContentRules) {
	c.contents.mu.Lock()
	defer c.contents.mu.Unlock()
	h := c.contents.of(got.page.URL.Host())
	copies := h.clusters.Add(content.Digest)
	near := copies > 1
	switch {
	case copies > 1 && r.Exact:
		content.Flags |= store.PageDuplicate
		got.counts = append(got.counts, countDuplicate)
	case copies == 1 && r.Near && content.Fingerprint != 0:
		print := similar.Print(content.Fingerprint)
		if _, _, near = h.prints.Lookup(print); near {
			content.Flags |= store.PageNearDuplicate
			got.counts = append(got.counts, countNear)
		}
		h.prints.Add(print, got.page.URL.Digest())
	}
	soft := similar.Signals{Status: got.page.Status, First: !near, Copies: copies, Phrase: got.sorry}
	switch {
	case r.SoftNotFound && similar.SoftNotFound(soft):
		content.Flags |= store.PageSoftNotFound
		c.cut(got, countSoft)
	case r.Mirrors && c.contents.mirrored(got.page.URL, content.Digest):
		c.cut(got, countMirror)
	case r.MaxCopies > 0 && copies > r.MaxCopies:
		c.cut(got, countCut)
	}
}

// cut drops the links of a page, counted and logged.
func (c *Crawler) cut(got *fetched, reason string) {
	c.log.Debug("links not followed", "url", got.page.URL, "links", len(got.links), "reason", reason)
	got.counts = append(got.counts, reason)
	got.links = nil
}
