package node

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"peerd/crawl/canon"
	"peerd/node/config"
	"peerd/node/search"
	"peerd/store/warc"
)

// ErrNotArchived is returned for a URL of which the archive holds no response.
var ErrNotArchived = errors.New("not in the archive")

// An Archived is the newest response for a URL, as it was received.
type Archived struct {
	URL  string
	Head []byte // status line and header, with the empty line at the end
	Body []byte // without content and transfer coding
}

// Get returns the newest response for a URL in the archive of a home. Responses that say that
// nothing has changed are left out. The error matches ErrNoArchive or ErrNotArchived where these
// apply. It reads the whole index.
func Get(ctx context.Context, home config.Home, url string) (a Archived, err error) {
	u, err := canon.Parse(url)
	if err != nil {
		return a, err
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
	a = Archived{URL: c.URL, Head: c.Head}
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

// indexed is the part of an index line that locates a response.
type indexed struct {
	URL    string `json:"url"`
	Mime   string `json:"mime"`
	Length string `json:"length"`
	Offset string `json:"offset"`
	File   string `json:"filename"`
}

// locate returns the place of the newest response for a URL. The index is sorted by URL and time.
func locate(ctx context.Context, r *warc.Reader, url string) (at warc.Location, err error) {
	out, in := io.Pipe()
	ended := make(chan struct{})
	defer func() {
		out.Close() // ends Index if the loop has ended early
		<-ended
	}()
	go func() {
		defer close(ended)
		in.CloseWithError(r.Index(ctx, in))
	}()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	want := []byte(strconv.Quote(url))
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), want) {
			continue
		}
		var x indexed
		_, object, _ := bytes.Cut(lines.Bytes(), []byte(" {"))
		if json.Unmarshal(append([]byte("{"), object...), &x) != nil || x.URL != url ||
			x.Mime == "warc/revisit" {
			continue
		}
		at.File = x.File
		var errs [2]error
		at.Offset, errs[0] = strconv.ParseInt(x.Offset, 10, 64)
		at.Length, errs[1] = strconv.ParseInt(x.Length, 10, 64)
		if err := errors.Join(errs[:]...); err != nil {
			return at, err
		}
	}
	if err := lines.Err(); err != nil {
		return at, err
	}
	if at.File == "" {
		return at, ErrNotArchived
	}
	return at, nil
}
