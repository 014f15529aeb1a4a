package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/internal/backoff"
	"peerd/store"
	"peerd/store/warc"
)

// Archived is an answer that is in the archive, and what was read from it.
type Archived struct {
	URL    store.URL
	Time   time.Time  // of the request
	Addr   netip.Addr // of the server
	Status int
	// Page is what was read of an HTML page; nil for other answers. It must not be changed.
	Page *extract.Document
	At   warc.Location
}

// archive appends an answer to the archive unless the answer forbids it. Truncated
// exchanges are not archived, because such a record would misrepresent the server. A
// committed page has at most one record; after a crash between archive and commit the page
// is fetched and archived again. An answer that does not fit is fetched again when there is
// space, or cut if there is space for others.
func (c *Crawler) archive(got *fetched, res *fetch.Result) error {
	if c.cfg.Archive == nil || len(res.ResponseHead) == 0 || !res.Outcome.Answered() ||
		c.archiveForbidden(got, res) {
		return nil
	}
	x := warc.Exchange{
		URL: string(got.page.URL), Addr: res.Remote.Addr(), Time: res.Started,
		Request: res.RequestHead, Response: res.ResponseHead, Body: res.Raw,
		Metadata: append(metadata(got, res.TLS), got.fields...), Truncated: res.RawCut,
	}
	if res.Proto != "" {
		x.Protocols = append(x.Protocols, res.Proto)
	}
	if res.TLS != nil {
		version := strings.ToLower(strings.ReplaceAll(res.TLS.Version, " ", "/")) // "tls/1.3"
		x.Protocols, x.CipherSuite = append(x.Protocols, version), res.TLS.CipherSuite
	}
	if res.Outcome == store.OutcomeNotModified {
		x.Revisit = &warc.Revisit{Profile: warc.NotModified, URL: x.URL}
		old, err := c.storedPage(got.page.URL)
		if err != nil {
			return err
		}
		if old.Flags&store.PageNoArchive != 0 {
			return nil
		}
		if old.Archive.File != "" {
			x.Revisit.Time = old.FetchedAt // a 304 leaves it unchanged
		}
	}
	at, err := c.cfg.Archive.Append(x)
	if c.tooLarge(err) {
		if x, err = c.cfg.Archive.Cut(x); err != nil {
			return err
		}
		c.log.Warn("cut answer that is larger than what is left of the archive",
			"url", got.page.URL, "bytes", len(res.Raw), "kept", len(x.Body))
		at, err = c.cfg.Archive.Append(x)
	}
	if errors.Is(err, warc.ErrInvalid) || c.tooLarge(err) {
		c.log.Warn("skipped answer that cannot be archived", "url", got.page.URL, "err", err)
		return nil
	}
	got.page.Archive = store.Location{File: at.File, Offset: at.Offset, Length: at.Length}
	if err == nil {
		c.cfg.Delegate.Archived(Archived{URL: got.page.URL, Time: x.Time, Addr: x.Addr,
			Status: res.Status, Page: got.doc, At: at})
	}
	return err
}

// tooLarge reports whether an answer did not fit into the archive although there is space to
// fetch others: to fetch it again would not help.
func (c *Crawler) tooLarge(err error) bool {
	return errors.Is(err, warc.ErrNoSpace) && c.cfg.Delegate.CheckSpace() == nil
}

// archiveForbidden reports whether an answer asks not to be archived, by its headers or as
// a page.
func (c *Crawler) archiveForbidden(got *fetched, res *fetch.Result) bool {
	if got.report.Content.Flags&store.PageNoArchive != 0 {
		return true
	}
	tags := res.Header["X-Robots-Tag"]
	if len(tags) == 0 {
		return false
	}
	doc, err := extract.Page(nil, http.Header{"X-Robots-Tag": tags}, got.page.URL,
		extract.Options{Agent: c.cfg.Agent})
	return err == nil && doc.Robots.NoArchive
}

// archiveFailed ends a job after its answer could not be archived. If the archive is full,
// the crawl ends (StopWhenFull) or the host waits. The URL stays queued.
func (c *Crawler) archiveFailed(
	ctx context.Context, job frontier.Job, rep store.FetchReport, gap time.Duration, cause error,
) error {
	if !errors.Is(cause, warc.ErrNoSpace) {
		c.release(job, false, gap, 0)
		return cause
	}
	wait, err := c.chargeSeparately(job.Host, 1, max(gap, rep.RetryAfter))
	c.release(job, false, gap, max(wait, c.spaceWait))
	if err == nil && c.cfg.StopWhenFull {
		err = fmt.Errorf("%w: %w", ErrNoSpace, cause)
	}
	if err == nil {
		c.log.Error("failed to archive answer: archive is full", "url", job.Entry.URL, "err", cause)
		_ = backoff.Sleep(ctx, c.spaceWait)
	}
	return err
}

// storedPage returns the record of a page, or the zero Page if there is none.
func (c *Crawler) storedPage(u store.URL) (p store.Page, err error) {
	err = c.cfg.DB.View(func(tx *store.Tx) (err error) {
		p, err = tx.Page(u)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return p, err
}

// metadata returns the WARC metadata fields that describe a fetch and its TLS session.
func metadata(got *fetched, session *fetch.TLSInfo) []warc.Field {
	t := got.page.Timing
	ms := func(name string, d time.Duration) warc.Field {
		value := strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
		return warc.Field{Name: name, Value: value}
	}
	all := []warc.Field{
		ms("fetchTimeMs", t.Total()), {Name: "outcome", Value: got.page.Outcome.String()},
		{Name: "hopsFromSeed", Value: strconv.Itoa(got.page.Depth)},
	}
	if got.source != "" {
		return append(all, warc.Field{Name: "source", Value: got.source})
	}
	if !t.Reused {
		all = append(all, ms("connectMs", t.Connect), ms("tlsMs", t.TLS))
	}
	if t.DNS > 0 {
		all = append(all, ms("dnsMs", t.DNS))
	}
	all = append(all, ms("firstByteMs", t.FirstByte), ms("bodyMs", t.Body))
	if session == nil {
		return all
	}
	return append(all,
		warc.Field{Name: "tlsVersion", Value: session.Version},
		warc.Field{Name: "tlsCipherSuite", Value: session.CipherSuite},
		warc.Field{Name: "tlsVerified", Value: strconv.FormatBool(session.Verified)},
		warc.Field{Name: "tlsSubjectNames", Value: session.Names},
		warc.Field{Name: "tlsIssuer", Value: session.Issuer},
		warc.Field{Name: "tlsNotBefore", Value: session.NotBefore.UTC().Format(time.RFC3339)},
		warc.Field{Name: "tlsNotAfter", Value: session.NotAfter.UTC().Format(time.RFC3339)},
	)
}
