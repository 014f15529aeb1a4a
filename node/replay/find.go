package replay

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
	"peerd/store/warc"
)

// maxEntries is how many index lines are read for the captures of one URL.
const maxEntries = 100_000

var (
	errStop     = errors.New("enough entries")
	errNotFound = errors.New("not in the archive")
)

// stampLayout is the form of times in URLs.
const stampLayout = "20060102150405"

// entries calls fn for at most limit entries. It returns whether there may be more.
func entries(ctx context.Context, r *warc.Reader, span warc.Span, limit int,
	fn func(warc.Entry) error,
) (more bool, err error) {
	n := 0
	err = r.Entries(ctx, span, func(e warc.Entry) error {
		if n++; n > limit {
			return errStop
		}
		return fn(e)
	})
	if errors.Is(err, errStop) {
		return n > limit, nil
	}
	return false, err
}

// neighbours are the captures around one.
type neighbours struct {
	first, last, prev, next, at warc.Entry
}

// nearest finds the capture of a URL that is nearest to a time. Captures of exactly this URL are
// preferred to others with the same key, such as those of http instead of https. Revisits count.
func nearest(ctx context.Context, r *warc.Reader, u store.URL, at time.Time) (neighbours, error) {
	var exact, similar series
	exact.at, similar.at = at, at
	_, err := entries(ctx, r, warc.SpanOf(string(u), warc.MatchExact), maxEntries,
		func(e warc.Entry) error {
			if e.URL == string(u) {
				exact.add(e)
			} else {
				similar.add(e)
			}
			return nil
		})
	switch {
	case err != nil:
		return neighbours{}, err
	case exact.n > 0:
		return exact.found, nil
	case similar.n > 0:
		return similar.found, nil
	}
	return neighbours{}, errNotFound
}

// series finds the nearest of the captures that are added in the order of time.
type series struct {
	at    time.Time
	n     int
	found neighbours
}

func (s *series) add(e warc.Entry) {
	f := &s.found
	s.n++
	switch {
	case s.n == 1:
		f.first, f.at = e, e
	case e.Time.Sub(s.at).Abs() < f.at.Time.Sub(s.at).Abs():
		f.prev, f.at, f.next = f.last, e, warc.Entry{}
	case f.next.URL == "":
		f.next = e
	}
	f.last = e
}

// capture is one archived response.
type capture struct {
	url    store.URL
	time   time.Time
	status int
	header http.Header
	body   *warc.Stream // with content coding; the caller must close it
	cut    bool
}

// open reads the header of the capture of an entry. A revisit gets the header and body of the
// capture that it refers to.
func open(ctx context.Context, r *warc.Reader, e warc.Entry) (c capture, err error) {
	x, err := r.OpenAt(e.Location)
	if err == nil && x.Type == "revisit" {
		revisit := x
		x, err = original(ctx, r, e, revisit)
		revisit.Close()
	}
	if err != nil {
		return c, err
	}
	defer func() {
		if err != nil {
			x.Close()
		}
	}()
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(x.Head)), nil)
	if err != nil {
		return c, fmt.Errorf("the archived response is not valid HTTP: %w", err)
	}
	resp.Body.Close()
	u, err := canon.Parse(e.URL)
	if err != nil {
		return c, err
	}
	return capture{url: u, time: e.Time, status: resp.StatusCode, header: resp.Header,
		body: x, cut: x.Truncated != ""}, nil
}

// original reads the capture that a revisit refers to: the last response before it with the same
// digest, or after "304 Not Modified" the last one of all.
func original(ctx context.Context, r *warc.Reader, e warc.Entry, x *warc.Stream) (
	*warc.Stream, error,
) {
	url, digest := e.URL, e.Digest
	for _, f := range x.Fields {
		switch strings.ToLower(f.Name) {
		case "warc-refers-to-target-uri":
			url = strings.Trim(f.Value, "<>")
		case "warc-profile":
			if strings.HasSuffix(f.Value, "/server-not-modified") {
				digest = "-"
			}
		}
	}
	var found warc.Entry
	_, err := entries(ctx, r, warc.SpanOf(url, warc.MatchExact), maxEntries,
		func(o warc.Entry) error {
			if o.Time.After(e.Time) {
				return errStop
			}
			if o.MIME != "warc/revisit" && o.Status != "304" && o.URL == url &&
				(digest == "-" || o.Digest == digest) {
				found = o
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	if found.URL == "" {
		return nil, fmt.Errorf("%w: the capture that this one repeats", errNotFound)
	}
	return r.OpenAt(found.Location)
}
