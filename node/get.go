package node

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"peerd/crawl/canon"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/search"
	"peerd/store/warc"
)

// ErrNotArchived is returned for a URL of which the archive holds no response.
var ErrNotArchived = errors.New("not in the archive")

// An Archived is the newest response for a URL, as it was received.
type Archived struct {
	Head []byte // status line and header, with the empty line at the end
	Body []byte // without content and transfer coding
}

// Get returns the newest response for a URL in the archive of a home. Responses that say that
// nothing has changed are left out. The error matches admin.ErrBadRequest, ErrNoArchive or
// ErrNotArchived where these apply.
func Get(ctx context.Context, home config.Home, url string) (a Archived, err error) {
	u, err := canon.Parse(url)
	if err != nil {
		return a, fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	}
	r, err := Archive(home)
	if err != nil {
		return a, err
	}
	at, err := locate(ctx, r, string(u))
	if err != nil {
		return a, fmt.Errorf("%s: %w", u, err)
	}
	c, err := r.ReadAt(at)
	if err != nil {
		return a, fmt.Errorf("%s: %w", u, err)
	}
	a.Head = c.Head
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(c.Head),
		bytes.NewReader(c.Body))), nil)
	if err != nil {
		return a, fmt.Errorf("%s: the response is not valid HTTP: %w", u, err)
	}
	defer resp.Body.Close()
	if a.Body, err = search.Body(resp, warc.MaxCapture); err != nil {
		return a, fmt.Errorf("%s: %w", u, err)
	}
	if len(a.Body) == warc.MaxCapture { // it may have been cut here
		return a, fmt.Errorf("%s: the body has more than %d bytes", u, warc.MaxCapture)
	}
	return a, nil
}

// locate returns the place of the newest response for a URL.
func locate(ctx context.Context, r *warc.Reader, url string) (at warc.Location, err error) {
	err = eachCapture(ctx, r, url, func(e warc.Entry) {
		if e.MIME != "warc/revisit" {
			at = e.Location
		}
	})
	if err == nil && at.File == "" {
		err = ErrNotArchived
	}
	return at, err
}

// eachCapture calls fn for the captures of a URL, the oldest first.
func eachCapture(
	ctx context.Context, r *warc.Reader, url string, fn func(warc.Entry),
) error {
	return r.Entries(ctx, warc.SpanOf(url, warc.MatchExact), func(e warc.Entry) error {
		if e.URL == url { // others, such as that with https, have the same key
			fn(e)
		}
		return nil
	})
}
