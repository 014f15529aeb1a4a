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
	"os"
	"strings"
	"time"

	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/node/config"
	"peerd/store"
	"peerd/store/warc"
)

// ErrNoArchive is returned for a home that has no archive.
var ErrNoArchive = errors.New("the home has no archive; crawl with --warc, or set archive.enabled in config.toml")

// Archive opens the archive of a home for reading. A peer may be writing it.
func Archive(home config.Home) (*warc.Reader, error) {
	r, err := warc.OpenReader(home.ArchiveDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", home.Dir, ErrNoArchive)
	}
	return r, err
}

// A Text is one page as an index wants it. The text begins with the title.
type Text struct {
	URL       string    `json:"url"`
	FetchedAt time.Time `json:"fetched_at"`
	Title     string    `json:"title"`
	Charset   string    `json:"charset"`
	Text      string    `json:"text"`
}

const (
	// maxArchived bounds a body read back from the archive, in bytes.
	maxArchived = 64 << 20
	// maxPageText bounds the text of one page, in bytes.
	maxPageText = 4 << 20
)

// Texts yields the texts of all HTML and plain text pages in an archive, as
// often as they were archived. Pages that ask not to be indexed are left out.
func Texts(ctx context.Context, r *warc.Reader, yield func(Text) error) error {
	return r.Records(ctx, func(rec warc.Record) error {
		if rec.Type != "response" {
			return nil
		}
		resp, err := http.ReadResponse(bufio.NewReader(rec.Block), nil)
		if err != nil {
			return nil // archived as it came, and no HTTP that can be read back
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return nil
		}
		raw, err := io.ReadAll(io.LimitReader(resp.Body, maxArchived))
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		body, err := fetch.Decode(raw, resp.Header, maxArchived)
		if err != nil {
			return nil
		}
		t, ok := textOf(body, resp.Header, store.URL(rec.URL))
		if !ok {
			return nil
		}
		t.FetchedAt = rec.Time
		return yield(t)
	})
}

// textOf reads the text of one answer; ok is false if it has none.
func textOf(body []byte, header http.Header, u store.URL) (t Text, ok bool) {
	contentType := header.Get("Content-Type")
	t.URL = string(u)
	if strings.HasPrefix(strings.ToLower(contentType), "text/plain") {
		t.Text, t.Charset = extract.Text(body, contentType, maxPageText)
		return t, true
	}
	doc, err := extract.Page(body, header, u, extract.Options{Text: maxPageText, MaxLinks: 1, Agent: agent})
	if err != nil || doc.Robots.NoIndex {
		return t, false
	}
	t.Title, t.Charset, t.Text = doc.Title, doc.Charset, doc.Text
	return t, true
}

// WriteTexts writes Texts as JSON, one object a line.
func WriteTexts(ctx context.Context, r *warc.Reader, w io.Writer) error {
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	return Texts(ctx, r, func(t Text) error {
		line.Reset()
		if err := enc.Encode(t); err != nil {
			return err
		}
		_, err := w.Write(line.Bytes())
		return err
	})
}
