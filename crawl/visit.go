package crawl

import (
	"peerd/crawl/frontier"
	"peerd/crawl/similar"
	"peerd/crawl/trap"
	"peerd/store"
)

// A visit is the fetch of one of our URLs while its links are routed.
type visit struct {
	job    frontier.Job
	report store.FetchReport
	text   trap.Text
	found  []store.Pending // the links to route
	links  []store.URL     // those of the page's host
	// queued are those links that were added to the queue. The first stored of them are on
	// disk.
	queued []store.URL
	stored int
	stage  stage
}

// A stage is how much of a visit the Gate knows. It must learn everything once, even if a
// transaction is tried again.
type stage int

const (
	stageNew stage = iota
	stageCompared
	stageObserved
)

// beginVisit begins a transaction that routes links. The first compares the text of the page
// and sets the sources of the links. Each discards the links of an earlier try. The visit
// may be nil.
func (c *Crawler) beginVisit(tx *store.Tx, v *visit) (err error) {
	if v == nil {
		return nil
	}
	v.queued = v.queued[:v.stored]
	if c.cfg.Gate == nil || v.stage != stageNew {
		return nil
	}
	if e := v.job.Entry; e.Kind == store.KindPage && isPage(v.report.Outcome) {
		hash := similar.Simhash(v.report.Content.Fingerprint)
		v.text, err = c.cfg.Gate.Compare(tx, e.URL, hash, v.job.Epoch)
	}
	v.setSources()
	v.stage = stageCompared
	return err
}

// added records a link that was added to a queue. The visit may be nil.
func (v *visit) added(p store.Pending) {
	if v != nil && p.From == "" {
		v.queued = append(v.queued, p.URL)
	}
}

// committed records that the links so far are on disk. The visit may be nil.
func (v *visit) committed() {
	if v != nil {
		v.stored = len(v.queued)
	}
}

// setSources sets the sources of links for package trap. Links of a redirect, and of a page
// that was not compared, count as found on a copy if that URL itself was.
func (v *visit) setSources() {
	e := v.job.Entry
	if e.Kind.Sitemap() {
		return
	}
	copied := v.text == trap.TextCopy ||
		v.text == trap.TextUnknown && e.Source.Has(store.SourceCopy)
	from := trap.NewLinker(e.URL, copied)
	for i := range v.found {
		v.found[i].Source = from.Source(v.found[i].URL)
	}
}

// observe reports a visit to the Gate. A redirect and a missing page count as copies; other
// failures say nothing about a URL.
func (c *Crawler) observe(tx *store.Tx, v *visit) error {
	if c.cfg.Gate == nil || v.job.Entry.Kind != store.KindPage || v.stage == stageObserved {
		return nil
	}
	v.stage = stageObserved
	switch rep := v.report; {
	case isPage(rep.Outcome):
	case rep.Outcome == store.OutcomeRedirect, isGone(rep.Status):
		v.text = trap.TextCopy
	default:
		return nil
	}
	return c.cfg.Gate.Observe(tx, trap.Visit{
		URL: v.job.Entry.URL, Source: v.job.Entry.Source, Text: v.text,
		Links: v.links, Queued: v.queued,
	}, v.job.Epoch)
}
