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
	"time"

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

// indexed is the part of an index line that describes a response.
type indexed struct {
	URL    string `json:"url"`
	Mime   string `json:"mime"`
	Status string `json:"status"`
	Length string `json:"length"`
	Offset string `json:"offset"`
	File   string `json:"filename"`

	at time.Time
}

// location returns where the response is.
func (x indexed) location() (at warc.Location, err error) {
	var errs [2]error
	at.File = x.File
	at.Offset, errs[0] = strconv.ParseInt(x.Offset, 10, 64)
	at.Length, errs[1] = strconv.ParseInt(x.Length, 10, 64)
	return at, errors.Join(errs[:]...)
}

// unchanged reports whether the response says that nothing has changed.
func (x indexed) unchanged() bool { return x.Mime == "warc/revisit" }

// locate returns the place of the newest response for a URL.
func locate(ctx context.Context, r *warc.Reader, url string) (at warc.Location, err error) {
	var newest indexed
	err = eachCapture(ctx, r, url, func(x indexed) {
		if !x.unchanged() {
			newest = x
		}
	})
	switch {
	case err != nil:
		return at, err
	case newest.File == "":
		return at, ErrNotArchived
	}
	return newest.location()
}

// eachCapture calls fn for the responses for a URL, the oldest first. It reads the whole index,
// which is sorted by URL and time.
func eachCapture(ctx context.Context, r *warc.Reader, url string, fn func(indexed)) error {
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
		key, object, _ := bytes.Cut(lines.Bytes(), []byte(" {"))
		if json.Unmarshal(append([]byte("{"), object...), &x) != nil || x.URL != url {
			continue
		}
		stamp := key[bytes.LastIndexByte(key, ' ')+1:]
		x.at, _ = time.Parse("20060102150405", string(stamp)) // zero if it is no time
		fn(x)
	}
	return lines.Err()
}
