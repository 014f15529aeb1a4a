package crawl

import (
	"strings"
	"sync"

	"peerd/crawl/similar"
	"peerd/internal/lru"
	"peerd/store"
)

// ContentRules define how different URLs with the same content are treated.
type ContentRules struct {
	// Exact flags pages with the same body as another page of their host.
	Exact bool
	// MaxCopies is the number of pages of one host with the same body beyond which links of
	// further copies are not followed; 0 means no limit.
	MaxCopies int
}

// Names of the counters for content rules.
const (
	countDuplicate = "duplicate"
	countRedirects = "redirects" // redirect chains longer than maxRedirects
	countLinks     = "links"     // pages with more links than are taken
	countCopies    = "copies"    // pages beyond MaxCopies, without their links
)

// contentHosts is the number of hosts of which contents are remembered.
const contentHosts = 256

// contentIndex counts the contents of the pages of each host. It is not stored: after a restart the
// first copy of a page is not recognised. Its methods are safe for concurrent use.
type contentIndex struct {
	mu    sync.Mutex
	hosts *lru.Cache[string, *similar.Clusters]
}

func newContentIndex() *contentIndex {
	return &contentIndex{hosts: lru.New[string, *similar.Clusters](contentHosts)}
}

// add counts a page of a host, and returns how many had its content, including this one.
func (s *contentIndex) add(host string, d store.Digest) (copies int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.hosts.Get(host)
	if !ok {
		c = &similar.Clusters{}
		s.hosts.Add(strings.Clone(host), c) // do not retain the whole URL
	}
	return c.Add(d)
}

// forget discards what is known about a host. Otherwise an answer that could not be stored
// would count as a copy of itself when it is fetched again.
func (s *contentIndex) forget(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts.Remove(host)
}

// compareContent flags a copy of another page of its host and drops its links if
// they should not be followed. A revisited page is only compared with its own record; if it
// is unchanged, its links were handled when it was first seen. compareContent remembers the
// page, so it must be called exactly once per answer, and only if the answer will be
// committed.
func (c *Crawler) compareContent(got *fetched) error {
	if !isPage(got.page.Outcome) {
		return nil
	}
	content := &got.report.Content
	if got.kind.Revisit() {
		old, err := c.storedPage(got.page.URL)
		if err == nil && isPage(old.Outcome) && old.Digest == content.Digest {
			got.unchanged, got.links = true, nil
		}
		return err
	}
	if r := c.cfg.Rules.Content; got.kind == store.KindPage && (r.Exact || r.MaxCopies > 0) {
		c.markContent(got, content, r)
	}
	return nil
}

// markContent is compareContent for a new page.
func (c *Crawler) markContent(got *fetched, content *store.Content, r ContentRules) {
	copies := c.contents.add(got.page.URL.Host(), content.Digest)
	if copies > 1 && r.Exact {
		content.Flags |= store.PageDuplicate
		got.counts = append(got.counts, countDuplicate)
	}
	if r.MaxCopies > 0 && copies > r.MaxCopies {
		c.dropLinks(got, countCopies)
	}
}

// dropLinks removes the links of a page, counted under reason.
func (c *Crawler) dropLinks(got *fetched, reason string) {
	c.log.Debug("dropped links",
		"url", got.page.URL, "links", len(got.links), "reason", reason)
	got.counts = append(got.counts, reason)
	got.links = nil
}
