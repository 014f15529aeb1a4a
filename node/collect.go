package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	local "peerd/node/search"
	"peerd/overlay/feed"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// collectLook is how often a collector looks for new peers, and collectRetry its first wait after a
// connection has failed.
const collectLook, collectRetry = time.Second, time.Second

// openFeed creates the protocol that sends the archive to collectors, which every peer serves.
func (n *Node) openFeed() error {
	n.feed = &feed.Server{
		Host: n.monitoredHost(), Protocol: n.net.Names.Feed(), Archive: n.archive,
		Upload: int64(n.opts.Config.Collect.Upload), Read: readExchange, Logger: n.log,
	}
	if n.opts.Config.Collect.Enabled && n.archive != nil {
		n.parts = append(n.parts, n.runCollector)
	}
	return nil
}

// runCollector archives what the other peers archive.
func (n *Node) runCollector(ctx context.Context) error {
	sink := newCollected(n)
	if err := sink.load(ctx); err != nil {
		return fmt.Errorf("collect: %w", err)
	}
	return n.whileVolume(ctx, func(ctx context.Context) error { return n.collect(ctx, sink) })
}

// collect runs a collector until ctx ends.
func (n *Node) collect(ctx context.Context, sink *collected) error {
	c := &feed.Collector{
		Host: n.monitoredHost(), Protocol: n.net.Names.Feed(), Sink: sink,
		Hosts: n.opts.Config.Collect.Hosts, Topics: n.opts.Config.Collect.Topics,
		Read: readExchange, Logger: n.log,
		Look: n.opts.scaled(collectLook), Retry: n.opts.scaled(collectRetry),
		Peers: n.peers.Directory(),
	}
	return c.Run(ctx)
}

// readExchange reads the page of an exchange, for topics.
func readExchange(x *warc.Exchange) (index.Document, bool) {
	u := store.URL(x.URL)
	whole := io.MultiReader(bytes.NewReader(x.Response), bytes.NewReader(x.Body))
	p, err := local.ReadPage(whole, u, robotsAgent)
	if err != nil || p.Type == "" {
		return index.Document{}, false
	}
	return index.Document{URL: u, Title: p.Title, Headings: p.Headings, Text: p.PlainText(),
		Type: p.Type, FetchedAt: x.Time}, true
}

// maxCollectedVersions is the number of pages of which the place of the last version is remembered.
const maxCollectedVersions = 1 << 16

// metaCollected names the place of the last exchange in the archive that was collected and of
// which the position at its sender is stored.
const metaCollected = "collected"

// place is the place of an exchange in the archive of this peer.
type place struct {
	File   string `cbor:"1,keyasint"`
	Offset int64  `cbor:"2,keyasint"`
}

// collected is the feed.Sink of a Node. It archives exchanges before it stores the position in the
// archive of their sender. After a crash in between they are sent again, and found in the archive
// behind metaCollected.
type collected struct {
	n *Node

	mu sync.Mutex // held during Save, so that the uncertain part of the archive is short
	// uncertain has the exchanges that are archived, of which the position may not be stored.
	uncertain map[string]map[capture]bool
	// last are the places of the last versions of pages, by peer and URL, to which differences are
	// sent.
	last *lru.Simple[string, warc.Location]
}

func newCollected(n *Node) *collected {
	return &collected{n: n, last: lru.NewSimple[string, warc.Location](maxCollectedVersions, nil)}
}

// capture identifies an exchange of one peer.
type capture struct {
	url string
	at  int64 // Unix time in µs, which is what an archive stores
}

func captureOf(x *warc.Exchange) capture { return capture{x.URL, x.Time.UnixMicro()} }

// load finds the exchanges that were archived before a crash.
func (c *collected) load(ctx context.Context) error {
	c.uncertain = map[string]map[capture]bool{}
	var last place
	if err := c.n.db.Meta(metaCollected, &last); err != nil {
		return err
	}
	at, err := c.n.archive.Position(ctx)
	if err != nil {
		return err
	}
	for name := range at { // the names of later files are greater
		switch {
		case name == last.File:
			at[name] = last.Offset
		case name > last.File:
			delete(at, name)
		}
	}
	err = c.n.archive.FollowExchanges(ctx, at, warc.Selection{Copied: true},
		func(x warc.Exchange) error {
			if x.From != "" {
				c.remember(&x)
			}
			return nil
		})
	if errors.Is(err, warc.ErrCorrupt) || ctx.Err() != nil {
		return nil //nolint:nilerr // what is left out may be archived twice; the peer ends
	}
	return err
}

func (c *collected) remember(x *warc.Exchange) {
	if c.uncertain[x.From] == nil {
		c.uncertain[x.From] = map[capture]bool{}
	}
	c.uncertain[x.From][captureOf(x)] = true
}

// feedKeys is where positions are. That of the file "" of a peer is no position, but the Unix time
// at which the peer was known last.
const feedKeys = "feed/"

func feedKey(p peer.ID, file string) string { return feedKeys + p.String() + "/" + file }

// keepPosition is how long the position in the archive of a peer is kept that is not known any
// more. If it comes back later, its archive is collected again.
const keepPosition = 180 * 24 * time.Hour

// Sweep implements feed.Sink.
func (c *collected) Sweep(known []peer.AddrInfo) error { return c.sweep(known, time.Now()) }

func (c *collected) sweep(known []peer.AddrInfo, now time.Time) error {
	seen := map[string]time.Time{}
	err := c.n.db.EachData(feedKeys, func(rest string, val []byte) error {
		id, file, _ := strings.Cut(rest, "/")
		if _, ok := seen[id]; !ok {
			seen[id] = now // unless it says otherwise
		}
		if at, n := binary.Uvarint(val); file == "" && n > 0 && at < uint64(now.Unix()) {
			seen[id] = time.Unix(int64(at), 0)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, p := range known {
		if _, ok := seen[p.ID.String()]; ok {
			seen[p.ID.String()] = now
		}
	}
	for id, at := range seen {
		if now.Sub(at) > keepPosition {
			err = errors.Join(err, c.n.db.DropData(feedKeys+id+"/"))
			continue
		}
		err = errors.Join(err, c.n.db.Update(func(tx *store.Tx) error {
			return tx.PutData(feedKeys+id+"/", binary.AppendUvarint(nil, uint64(at.Unix())))
		}))
	}
	return err
}

// Position implements feed.Sink.
func (c *collected) Position(p peer.ID) (map[string]int64, error) {
	at := map[string]int64{}
	err := c.n.db.EachData(feedKey(p, ""), func(file string, val []byte) error {
		if file == "" {
			return nil
		}
		offset, n := binary.Uvarint(val)
		if n <= 0 || offset > math.MaxInt64 {
			return fmt.Errorf("%w: position in %q of %s", store.ErrCorrupt, file, p)
		}
		at[file] = int64(offset)
		return nil
	})
	return at, err
}

// Save implements feed.Sink.
func (c *collected) Save(p peer.ID, at map[string]int64, all []warc.Exchange) error {
	if err := c.n.checkSpace(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last, added, err := c.archive(p, all)
	if err != nil {
		return err
	}
	if err := c.n.archive.Sync(); err != nil {
		return err
	}
	err = c.n.db.Update(func(tx *store.Tx) error {
		for file, offset := range at {
			val := binary.AppendUvarint(nil, uint64(offset))
			if err := tx.PutData(feedKey(p, file), val); err != nil {
				return err
			}
		}
		if added == 0 {
			return nil
		}
		return tx.PutMeta(metaCollected, last)
	})
	if err == nil {
		err = c.n.db.Sync()
	}
	if err == nil {
		delete(c.uncertain, p.String())
	}
	return err
}

// Version implements feed.Sink.
func (c *collected) Version(p peer.ID, url string, at time.Time) ([]byte, bool) {
	c.mu.Lock()
	loc, ok := c.last.Get(p.String() + " " + url)
	c.mu.Unlock()
	if !ok {
		return nil, false
	}
	x, err := c.n.archive.ReadAt(loc)
	if err != nil || x.URL != url || x.Time.UnixMicro() != at.UnixMicro() {
		return nil, false
	}
	return x.Body, true
}

// archive archives exchanges, but those that are archived already or that no correct peer of this
// network sends. It returns the place of the last one, and their number.
func (c *collected) archive(p peer.ID, all []warc.Exchange) (last place, added int, err error) {
	for _, x := range all {
		if c.uncertain[x.From][captureOf(&x)] {
			continue
		}
		err := urlChecker{c.n}.Check(store.URL(x.URL))
		var loc warc.Location
		if err == nil {
			loc, err = c.n.archive.Append(x)
			if err != nil && !errors.Is(err, warc.ErrInvalid) {
				return last, added, err
			}
		}
		if err != nil {
			c.n.log.Debug("left out page of collected archive", "peer", p, "url", x.URL, "err", err)
			continue
		}
		c.remember(&x)
		if x.Revisit == nil && len(x.Body) <= feed.MaxDelta {
			c.last.Add(x.From+" "+x.URL, loc)
		}
		last, added = place{loc.File, loc.Offset}, added+1
	}
	return last, added, nil
}
