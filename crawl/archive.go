package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/store"
	"peerd/store/warc"
)

// fullWaits is how many times roomWait a host is left alone whose answer did not
// fit into the archive, although there was room.
const fullWaits = 60

// archive keeps an answer, unless it asks that no copy is kept. Answers that
// broke off are none: a record of them would say what the server did not. At
// most one record is written for a page that is committed; a crash in between
// has the page fetched, and archived, once more.
func (c *Crawler) archive(got *fetched, res *fetch.Result) error {
	if c.cfg.Archive == nil || len(res.ResponseHead) == 0 || !res.Outcome.Answered() || c.noArchive(got, res) {
		return nil
	}
	x := warc.Exchange{
		URL: string(got.page.URL), Addr: res.Remote.Addr(), Time: res.Started,
		Request: res.RequestHead, Response: res.ResponseHead, Body: res.Raw,
		Metadata: metadata(got),
	}
	if res.RawCut {
		x.Truncated = "length"
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
		old, err := c.kept(got.page.URL)
		if err != nil {
			return err
		}
		if old.Flags&store.PageNoArchive != 0 {
			return nil
		}
		if old.Archive.File != "" {
			x.Revisit.Time = old.FetchedAt // which a 304 leaves as it is
		}
	}
	at, err := c.cfg.Archive.Append(x)
	if errors.Is(err, warc.ErrInvalid) {
		c.log.Warn("an answer could not be archived", "url", got.page.URL, "err", err)
		return nil
	}
	got.page.Archive = store.Location{File: at.File, Offset: at.Offset, Length: at.Length}
	return err
}

// noArchive says whether an answer asks that no copy is kept: by its headers,
// whatever it is, or as a page.
func (c *Crawler) noArchive(got *fetched, res *fetch.Result) bool {
	if got.report.Content.Flags&store.PageNoArchive != 0 {
		return true
	}
	tags := res.Header["X-Robots-Tag"]
	if len(tags) == 0 {
		return false
	}
	doc, err := extract.Page(nil, http.Header{"X-Robots-Tag": tags}, got.page.URL, extract.Options{Agent: c.cfg.Agent})
	return err == nil && doc.Robots.NoArchive
}

// notKept ends a job whose answer the archive could not take. If that is for
// want of room, the crawl ends, or the host waits; the URL stays queued.
func (c *Crawler) notKept(ctx context.Context, job frontier.Job, gap time.Duration, cause error) error {
	if !errors.Is(cause, warc.ErrFull) {
		c.cfg.Frontier.Release(job, false, gap, 0)
		return cause
	}
	wait, err := c.chargeAlone(job.Host, 1, gap)
	c.cfg.Frontier.Release(job, false, gap, max(wait, fullWaits*c.roomWait))
	if err == nil && c.cfg.StopWhenFull {
		err = fmt.Errorf("%w: %w", ErrFull, cause)
	}
	if err == nil {
		c.log.Error("an answer does not fit into the archive", "url", job.Entry.URL, "err", cause)
		c.rest(ctx)
	}
	return err
}

// kept returns what is kept of a page, or the zero Page.
func (c *Crawler) kept(u store.URL) (p store.Page, err error) {
	err = c.cfg.DB.View(func(tx *store.Tx) (err error) {
		p, err = tx.Page(u)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return p, err
}

// metadata says in WARC's words how a fetch went.
func metadata(got *fetched) []warc.Field {
	t := got.page.Timing
	ms := func(name string, d time.Duration) warc.Field {
		return warc.Field{Name: name, Value: strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)}
	}
	all := []warc.Field{
		ms("fetchTimeMs", t.Total()), {Name: "outcome", Value: got.page.Outcome.String()},
		{Name: "hopsFromSeed", Value: strconv.Itoa(got.page.Depth)},
	}
	if !t.Reused {
		all = append(all, ms("connectMs", t.Connect), ms("tlsMs", t.TLS))
	}
	return append(all, ms("firstByteMs", t.FirstByte), ms("bodyMs", t.Body))
}
