package registry

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// errNotModified means that the server has nothing newer than the stored file.
var errNotModified = errors.New("not modified")

// source is an open file or response.
type source struct {
	io.Reader
	body           io.Closer
	etag, modified string
}

// isURL distinguishes URLs from paths.
func isURL(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && strings.Trim(strings.ToLower(scheme),
		"abcdefghijklmnopqrstuvwxyz0123456789+-.") == ""
}

// open opens a path or URL and decompresses it if it is gzip. before describes the stored file
// of a URL; if the server has nothing newer, the error is errNotModified.
func (o Options) open(ctx context.Context, name string, before Info) (*source, error) {
	var s *source
	var err error
	if isURL(name) {
		s, err = o.get(ctx, name, before)
	} else {
		s, err = o.file(name)
	}
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(s.Reader)
	s.Reader = in
	if head, _ := in.Peek(2); string(head) == "\x1f\x8b" {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("invalid gzip: %w", err), s.body.Close())
		}
		s.Reader = z
	}
	return s, nil
}

func (o Options) file(name string) (*source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s: is a directory", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &source{Reader: o.withProgress(f, name, info.Size()), body: f}, nil
}

func (o Options) get(ctx context.Context, name string, before Info) (*source, error) {
	u, err := url.Parse(name)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%s: want a file, or a URL with http:// or https://", name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", o.UserAgent)
	if before.ETag != "" {
		req.Header.Set("If-None-Match", before.ETag)
	}
	if before.Modified != "" {
		req.Header.Set("If-Modified-Since", before.Modified)
	}
	resp, err := o.client().Do(req)
	if err != nil {
		return nil, err // names the URL
	}
	switch {
	case resp.StatusCode == http.StatusNotModified && (before.ETag != "" || before.Modified != ""):
		return nil, errors.Join(errNotModified, resp.Body.Close())
	case resp.StatusCode != http.StatusOK:
		return nil, errors.Join(fmt.Errorf("%s: the server answered %s", name, resp.Status),
			resp.Body.Close())
	case resp.ContentLength > o.MaxBytes:
		return nil, errors.Join(fmt.Errorf("%s: %d bytes, want at most %d", name,
			resp.ContentLength, o.MaxBytes), resp.Body.Close())
	}
	return &source{
		Reader: o.withProgress(resp.Body, name, resp.ContentLength), body: resp.Body,
		etag:     boundedValidator(resp.Header.Get("ETag")),
		modified: boundedValidator(resp.Header.Get("Last-Modified")),
	}, nil
}

// boundedValidator drops validators that are too long to store.
func boundedValidator(s string) string {
	if len(s) > 256 {
		return ""
	}
	return s
}

func (o Options) client() *http.Client {
	if o.Client != nil {
		return o.Client
	}
	return http.DefaultClient
}

// withProgress returns a reader that is bounded by MaxBytes and reports its progress.
func (o Options) withProgress(r io.Reader, name string, size int64) io.Reader {
	return &progressReader{Options: o, r: r, name: name, size: size,
		next: time.Now().Add(reportInterval)}
}

// reportInterval is the time between two reports of progress.
const reportInterval = time.Second

type progressReader struct {
	Options
	r          io.Reader
	name       string
	size, done int64
	next       time.Time
}

func (w *progressReader) Read(b []byte) (int, error) {
	n, err := w.r.Read(b)
	if w.done += int64(n); w.done > w.MaxBytes {
		return n, fmt.Errorf("more than %d bytes", w.MaxBytes)
	}
	if now := time.Now(); w.Progress != nil && now.After(w.next) {
		w.Progress(w.name, w.done, w.size)
		w.next = now.Add(reportInterval)
	}
	return n, err
}
