package crawl

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/similar"
	"peerd/store"
)

// ContentRules say what is done about different URLs with the same content.
type ContentRules struct {
	Exact, Near  bool
	SoftNotFound bool
	// MaxCopies is the number of pages of one host with one body from which on
	// the links of further copies are not followed; 0: they always are.
	MaxCopies int
}

func (r ContentRules) wantsText() bool { return r.Near || r.SoftNotFound }

// The names under which the content rules count.
const (
	countDuplicate = "duplicate"
	countNear      = "near_duplicate"
	countSoft      = "soft_404"
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
}

// hostContents is what is known of one host, used under contents.mu.
type hostContents struct {
	clusters similar.Clusters
	prints   *similar.Index
}

func newContents() *contents {
	hosts, err := lru.New[string, *hostContents](contentHosts)
	if err != nil {
		panic(err) // only for a size <= 0
	}
	return &contents{hosts: hosts}
}

// compare marks a page that is like another of its host, and drops its links
// if there is no sense in following them. A page that is looked at again is
// none.
func (c *Crawler) compare(got *fetched) {
	r := c.cfg.Rules.Content
	if got.kind != store.KindPage || !isPage(got.page.Outcome) || !r.Exact && !r.wantsText() {
		return
	}
	content := &got.report.Content
	c.contents.mu.Lock()
	defer c.contents.mu.Unlock()
	h := c.contents.of(got.page.URL.Host())
	copies := 0
	if r.Exact {
		copies = h.clusters.Add(content.Digest)
	}
	switch {
	case copies > 1:
		content.Flags |= store.PageDuplicate
		got.counts = append(got.counts, countDuplicate)
	case r.Near && content.Fingerprint != 0:
		print := similar.Print(content.Fingerprint)
		if _, _, ok := h.prints.Lookup(print); ok {
			content.Flags |= store.PageNearDuplicate
			got.counts = append(got.counts, countNear)
		}
		h.prints.Add(print, got.page.URL.Digest())
	}
	if r.MaxCopies > 0 && copies > r.MaxCopies {
		c.cut(got, countCut)
	}
}

// cut drops the links of a page, counted and logged.
func (c *Crawler) cut(got *fetched, reason string) {
	c.log.Debug("links not followed", "url", got.page.URL, "links", len(got.links), "reason", reason)
	got.counts = append(got.counts, reason)
	got.links = nil
}

func (s *contents) of(host string) *hostContents {
	h, ok := s.hosts.Get(host)
	if !ok {
		h = &hostContents{prints: similar.NewIndex(printsHeld)}
		s.hosts.Add(host, h)
	}
	return h
}
