package search

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"
	"unicode/utf8"

	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// Limits of a batch.
const (
	maxBatchPages = 512
	maxBatchBytes = 8 << 20
)

// Pauses of Run.
const (
	followEvery = 4 * time.Second
	retryEvery  = time.Minute
)

// Indexer adds the pages of an archive to an index. Its fields are set before its methods are
// called, by one goroutine.
type Indexer struct {
	Index   *index.Index
	Archive *warc.Reader
	Agent   string // the crawler's product token
	// Recent has the pages that need not be read from the archive; nil: there are none.
	Recent *Recent
	// CheckSpace returns an error while the disk is too full; nil: it is not checked.
	CheckSpace func() error
	Logger     *slog.Logger
	// Progress is called after each batch with the number of pages so far; it may be nil.
	Progress func(pages int)

	batch index.Batch
	bytes int // of the pages in batch
	pages int // of this call of CatchUp
}

// Run follows the archive until ctx ends. A failure is logged and tried again later: a peer
// crawls also without an index.
func (x *Indexer) Run(ctx context.Context) error {
	var filled <-chan struct{}
	for wait := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		case <-filled:
		}
		_, err := x.CatchUp(ctx)
		wait, filled = followEvery, x.Recent.half
		if err != nil && ctx.Err() == nil {
			x.Logger.Warn("failed to index pages", "retry_in", retryEvery, "err", err)
			wait, filled = retryEvery, nil
		}
	}
}

// CatchUp adds what is in the archive and not in the index, and returns the number of pages that
// were read. Pages in damaged files of the archive are logged and skipped.
func (x *Indexer) CatchUp(ctx context.Context) (pages int, err error) {
	if x.Recent == nil {
		x.Recent = NewRecent()
	}
	at := x.Index.Position()
	before := maps.Clone(at)
	x.batch, x.bytes, x.pages = index.Batch{}, 0, 0
	pass := x.Recent.begin()
	known := x.Recent.follow(func(a answer) error { return x.put(a, at) })
	err = x.Archive.FollowBut(ctx, at, known, func(rec warc.Record) error {
		return x.add(rec, at)
	})
	if errors.Is(err, warc.ErrCorrupt) {
		x.Logger.Warn("skipped a part of the archive that cannot be read", "err", err)
		err = nil
	}
	if err == nil && !maps.Equal(at, before) {
		err = x.apply(at)
	}
	if err == nil {
		x.Recent.end(pass)
	}
	return x.pages, err
}

// apply stores the batch. All records before at are indexed or in the batch.
func (x *Indexer) apply(at map[string]int64) error {
	if x.CheckSpace != nil {
		if err := x.CheckSpace(); err != nil {
			return err
		}
	}
	x.batch.Position = maps.Clone(at)
	if err := x.Index.Apply(x.batch); err != nil {
		return err
	}
	x.batch, x.bytes = index.Batch{}, 0
	if x.Progress != nil {
		x.Progress(x.pages)
	}
	return nil
}

// add adds what a record says about a page to the batch.
func (x *Indexer) add(rec warc.Record, at map[string]int64) error {
	u := store.URL(rec.URL)
	if rec.Type != "response" || u.Host() == "" || isRobots(u) || !utf8.ValidString(rec.URL) {
		return nil // the index could not read a URL in another encoding
	}
	p, err := ReadPage(rec.Block, u, x.Agent)
	if errors.Is(err, ErrNoPage) {
		return nil
	}
	if err != nil {
		return err
	}
	addr, _ := netip.ParseAddr(rec.Get("WARC-IP-Address")) // optional
	return x.put(p.answer(u, rec.Time, addr, store.Location{File: rec.Location.File,
		Offset: rec.Location.Offset}), at)
}

// put adds what an answer says to the batch. All before it, which at says, is indexed or in the
// batch.
func (x *Indexer) put(a answer, at map[string]int64) error {
	if x.bytes >= maxBatchBytes ||
		len(x.batch.Pages)+len(x.batch.Removed) >= maxBatchPages {
		if err := x.apply(at); err != nil {
			return err
		}
	}
	switch {
	case a.page != nil:
		x.batch.Pages = append(x.batch.Pages, *a.page)
		x.bytes += sizeOf(a.page)
		x.pages++
	case a.gone:
		x.remove(a.url)
	}
	return nil
}

// remove removes a page from the index, and from the batch.
func (x *Indexer) remove(u store.URL) {
	x.batch.Pages = slices.DeleteFunc(x.batch.Pages, func(d index.Document) bool {
		return d.URL == u
	})
	x.batch.Removed = append(x.batch.Removed, u)
}
