package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"peerd/node/config"
	"peerd/node/search"
	"peerd/store"
	"peerd/store/warc"
)

// ErrNoArchive is returned for a home without archive.
var ErrNoArchive = errors.New(
	"the home has no archive; crawl with --warc, or set archive.enabled in config.toml")

// Want says which records of an archive are exported.
type Want = warc.Want

// ArchiveReader reads an archive.
type ArchiveReader = warc.Reader

// Archive opens the archive of a home for reading. A peer may be writing it.
func Archive(home config.Home) (*ArchiveReader, error) {
	r, err := warc.OpenReader(home.ArchiveDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", home.Dir, ErrNoArchive)
	}
	return r, err
}

// A Text is the text of one page for an index. It starts with the title.
type Text struct {
	URL       string    `json:"url"`
	FetchedAt time.Time `json:"fetched_at"`
	Title     string    `json:"title"`
	Charset   string    `json:"charset"`
	Text      string    `json:"text"`
}

// Texts yields the texts of all HTML and plain text pages in an archive, once for each time that
// a page was archived. It omits pages that ask not to be indexed. at says up to where each file was
// read; it is that of the record when yield is called, so that a copy of it begins with this page.
// Damaged records are left out as by warc.Reader.Follow.
func Texts(
	ctx context.Context, r *warc.Reader, at map[string]int64, yield func(Text) error,
) error {
	return r.Follow(ctx, at, func(rec warc.Record) error {
		if rec.Type != "response" {
			return nil
		}
		p, err := search.ReadPage(rec.Block, store.URL(rec.URL), robotsAgent)
		if errors.Is(err, search.ErrNoPage) {
			return nil // archived as received, and not valid HTTP
		}
		if err == nil {
			err = rec.Check()
		}
		if err != nil || p.Type == "" {
			return err
		}
		return yield(Text{URL: rec.URL, FetchedAt: rec.Time, Title: p.Title, Charset: p.Charset,
			Text: p.Text})
	})
}
