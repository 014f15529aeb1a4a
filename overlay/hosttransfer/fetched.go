package hosttransfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
	"peerd/store"
)

// While a partition keeps two peers apart both may own a subnet. When it has ended one of them
// loses it, and tells the other one which pages of its hosts it has fetched: these are not fetched
// again. What is queued it sends as URLs that it found, which replicas have before they are
// acknowledged.

const (
	// maxFetched bounds the pages of a host of which the other peer is told, and maxLeft the URLs
	// that are queued there: of more it is told nothing. The pages are fetched again.
	maxFetched = 1 << 16
	maxLeft    = 1 << 18
	// askAgain is when a busy peer is asked again, on average.
	askAgain = time.Second
)

// errTooMany is returned for a host with more than maxLeft queued URLs.
var errTooMany = errors.New("hosttransfer: too many URLs are queued")

// TellFetched tells another peer which pages of a host this peer has fetched under a lease of the
// host's subnet, sealed, that one of the other peer's has replaced. The host must be out of the
// frontier. The error is ErrRefused if the other peer does not believe it. TellFetched waits for a
// peer that is busy until ctx ends.
func (s *Service) TellFetched(ctx context.Context, to peer.ID, host string, lost []byte) error {
	var f fetched
	if err := s.DB.View(func(tx *store.Tx) error { return f.read(tx, host) }); err != nil {
		return err
	}
	if len(f.pages) == 0 {
		return nil
	}
	for {
		err := s.converse(ctx, to, Offer{Host: host, Lost: lost}, f.send)
		if !errors.Is(err, ErrBusy) || backoff.Sleep(ctx, backoff.Jitter(askAgain)) != nil {
			return err
		}
	}
}

// fetched is what a peer has fetched of a host.
type fetched struct {
	pages  map[store.Digest]bool
	visits []store.Visit // planned visits to some of the pages, without their history
}

// read reads what this peer has fetched: what it has seen and neither queued nor given up.
func (f *fetched) read(tx *store.Tx, host string) error {
	left := map[store.Digest]bool{}
	leave := func(u store.URL) (bool, error) {
		if left[u.Digest()] = true; len(left) > maxLeft {
			return false, errTooMany
		}
		return true, nil
	}
	err := tx.Queue(host, nil, func(e store.Entry) (bool, error) {
		if e.Kind.Revisit() {
			return true, nil
		}
		return leave(e.URL)
	})
	if err == nil {
		err = tx.EachGivenUp(host, nil, func(g store.GivenUp) (bool, error) { return leave(g.URL) })
	}
	if err == nil {
		err = tx.Visits(host, nil, func(v store.Visit) (bool, error) {
			if !v.First.IsZero() { // it was never fetched
				return leave(v.URL)
			}
			if len(f.visits) < maxFetched {
				v.History = nil // the other peer learns it again
				f.visits = append(f.visits, v)
			}
			return true, nil
		})
	}
	if err != nil {
		return err
	}
	f.pages = map[store.Digest]bool{}
	return tx.SeenDigests(host, nil, func(d store.Digest) (bool, error) {
		if !left[d] {
			f.pages[d] = true
		}
		return len(f.pages) < maxFetched, nil
	})
}

func (f *fetched) send(c *wire.Conn) error {
	for part := range slices.Chunk(slices.Collect(maps.Keys(f.pages)), maxSeen) {
		if err := c.SendZ(chunk{Seen: part}); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(f.visits, maxItems) {
		if err := c.SendZ(chunk{Visits: part}); err != nil {
			return err
		}
	}
	return nil
}

// handleFetched takes in what another peer has fetched of a host that is here.
func (s *Service) handleFetched(ctx context.Context, c *wire.Conn, o Offer) error {
	leave, err := s.Receiver.AcceptFetched(c.Peer(), o.Host, o.Lost)
	if err != nil {
		return refuse(c, err)
	}
	defer leave()
	if err := c.Send(reply{Outcome: outcomeOK}); err != nil {
		return err
	}
	f := fetched{pages: map[store.Digest]bool{}}
	for {
		var part chunk
		if err := c.RecvZ(&part); err != nil {
			return err
		}
		if part.Last {
			break
		}
		if err := part.check(o.Host, s.URLs.Check); err != nil {
			return err
		}
		if err := f.add(part); err != nil {
			return err
		}
	}
	err = s.Receiver.WithoutRequests(ctx, o.Host, func() error { return f.store(s.DB, o.Host) })
	if err != nil {
		return err
	}
	if s.Logger != nil {
		s.Logger.Info("learned which pages were fetched", "host", o.Host, "pages", len(f.pages),
			"by", c.Peer())
	}
	return c.Send(reply{Outcome: outcomeDone})
}

// add adds a chunk, which names a page at least.
func (f *fetched) add(c chunk) error {
	for _, d := range c.Seen {
		f.pages[d] = true
	}
	f.visits = append(f.visits, c.Visits...)
	if len(c.Seen)+len(c.Visits) == 0 || len(f.pages) > maxFetched || len(f.visits) > maxFetched {
		return fmt.Errorf("%w: no pages, or more than %d", errMessage, maxFetched)
	}
	return nil
}

// store takes the pages out of the queue and enters them as seen. It may be repeated.
func (f *fetched) store(db *store.DB, host string) error {
	if err := f.unqueue(db, host); err != nil {
		return err
	}
	for part := range slices.Chunk(slices.Collect(maps.Keys(f.pages)), maxSeen) {
		err := db.Update(func(tx *store.Tx) error { return tx.Import(host, nil, part) })
		if err != nil {
			return err
		}
	}
	for part := range slices.Chunk(f.visits, maxItems) {
		if err := db.Update(func(tx *store.Tx) error { return f.plan(tx, part) }); err != nil {
			return err
		}
	}
	return db.Sync()
}

// unqueue removes the entries of the pages from the queue of a host.
func (f *fetched) unqueue(db *store.DB, host string) error {
	var after []byte
	for more := true; more; {
		var last []byte
		err := db.Update(func(tx *store.Tx) error {
			var gone []store.Entry
			looked := 0
			err := tx.Queue(host, after, func(e store.Entry) (bool, error) {
				if looked++; !e.Kind.Revisit() && f.pages[e.URL.Digest()] {
					gone = append(gone, e)
				}
				last = e.Key
				return looked < maxItems, nil
			})
			more = looked == maxItems
			for _, e := range gone {
				if err == nil {
					err = tx.Remove(host, e)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		after = last
	}
	return nil
}

// plan stores visits to pages to which this peer has planned none but a first one.
func (f *fetched) plan(tx *store.Tx, visits []store.Visit) error {
	for _, v := range visits {
		old, err := tx.Visit(v.URL)
		known := err == nil && old.First.IsZero()
		if known || !f.pages[v.URL.Digest()] {
			continue
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := tx.PutVisit(v); err != nil {
			return err
		}
	}
	return nil
}
