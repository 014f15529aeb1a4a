package hosttransfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/home"
	"peerd/overlay/wire"
	"peerd/store"
)

// Receiver decides on hosts that other peers offer; provided by owner.Manager. Its
// methods must be safe for concurrent use.
type Receiver interface {
	// Accept decides whether a host may come from the given peer to its new home r. done
	// means that it is already here by this or a later record; merge says what is taken if it
	// is here in another way. leave is called when the host is here or is not coming; until
	// then its subnet stays.
	Accept(ctx context.Context, from peer.ID, r home.Record) (done bool, merge Merge,
		leave func(), err error)
	// Arrived puts a host, with state that is on disk, into the frontier; it must not be
	// asked before at. sealed is its home record.
	Arrived(ctx context.Context, h store.Host, sealed []byte, at time.Time) error
	// Safe reports whether what was stored in a subnet before the call would survive this peer.
	Safe(ctx context.Context, p netip.Prefix) bool
	// Route queues URLs of a host that is here.
	Route(found []store.Pending) error
	// AcceptFetched decides whether a peer is believed what it has fetched of a host of this peer's
	// under a sealed lease that it has lost. Until leave is called the host stays where it is.
	AcceptFetched(from peer.ID, host string, lost []byte) (leave func(), err error)
	// WithoutRequests calls fn while no request to the host is under way, and returns its error. fn
	// may change the queue of the host.
	WithoutRequests(ctx context.Context, host string, fn func() error) error
}

// Merge says what is taken of a host that is here already.
type Merge uint8

const (
	// NoMerge: the host is not here. All that arrives is stored.
	NoMerge Merge = iota
	// MergeURLs: the URLs in the queue. The sender may never have fetched from the host, and what
	// it says that it has seen would never be fetched.
	MergeURLs
	// MergeAll: also what the sender has seen and given up.
	MergeAll
)

// Service carries hosts. Its fields are set before it is used.
type Service struct {
	DB       *store.DB
	Host     host.Host
	Protocol protocol.ID
	Receiver Receiver
	// Check rejects URLs that no peer of this network would send.
	URLs   store.URLChecker
	Logger *slog.Logger

	mu   sync.Mutex
	busy map[string]peer.ID // hosts on their way in, and who sends them
}

// staging is the home of hosts with incomplete state: none.
var staging netip.Prefix

// maxIncoming bounds the hosts that come in at once, and maxFromPeer those from one peer.
const (
	maxIncoming = 8
	maxFromPeer = 2
)

// Serve takes hosts until the Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, limits, s.Logger, s.handle)
}

// Sweep ends broken conversations, at the start: what came completely takes the place of the
// copy that it was kept beside, and the rest is dropped.
func (s *Service) Sweep() error {
	if err := s.sweepKept(); err != nil {
		return err
	}
	var left []string
	err := s.DB.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error {
			if h.Subnet == staging {
				left = append(left, h.Name)
			}
			return nil
		})
	})
	for _, h := range left {
		if err == nil {
			err = s.DB.DropHostIn(staging, h)
		}
	}
	return err
}

func (s *Service) handle(ctx context.Context, c *wire.Conn) error {
	var o Offer
	if err := c.Recv(&o); err != nil {
		return err
	}
	r, err := o.check()
	if err != nil {
		return refuse(c, err)
	}
	if !s.enter(o.Host, c.Peer()) {
		return refuse(c, errors.New(whyBusy))
	}
	defer s.exit(o.Host)
	ctx, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	defer context.AfterFunc(ctx, c.Reset)()
	if o.Lost != nil {
		return s.handleFetched(ctx, c, o)
	}
	done, merge, leave, err := s.Receiver.Accept(ctx, c.Peer(), r)
	if err != nil {
		return refuse(c, err)
	}
	defer leave()
	if !done {
		in := &intake{s: s, o: o, from: c.Peer(), subnet: r.Subnet, merge: merge}
		if err := in.look(); errors.Is(err, errElsewhere) {
			return refuse(c, err)
		} else if err != nil {
			return err
		}
		if err := in.take(ctx, c); err != nil {
			return errors.Join(err, in.undo())
		}
	}
	if !s.Receiver.Safe(ctx, r.Subnet) { // the sender, which deletes its copy then, asks again
		return errUnsafe
	}
	return c.Send(reply{Outcome: outcomeDone})
}

// errUnsafe ends a conversation in which all of a host has come.
var errUnsafe = errors.New("hosttransfer: the replicas do not have the host yet")

// refuse answers that a host is not taken, and why.
func refuse(c *wire.Conn, err error) error {
	return c.Send(reply{Outcome: outcomeRefused, Why: store.ErrorText(err)})
}

// enter takes a place for a host that a peer sends, if there is one.
func (s *Service) enter(host string, from peer.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	theirs := 0
	for _, p := range s.busy {
		if p == from {
			theirs++
		}
	}
	if s.busy[host] != "" || len(s.busy) >= maxIncoming || theirs >= maxFromPeer {
		return false
	}
	if s.busy == nil {
		s.busy = map[string]peer.ID{}
	}
	s.busy[host] = from
	return true
}

func (s *Service) exit(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, host)
}

// intake takes in one host.
type intake struct {
	s            *Service
	o            Offer
	from         peer.ID
	subnet       netip.Prefix
	merge        Merge
	copied       bool // the host is in a copy: see kept.go
	complete     bool // all of it is kept beside the copy
	chunks       int  // kept
	queued, seen int64
}

// errElsewhere is returned for a host that is here in a subnet which the sender may not change.
var errElsewhere = errors.New("hosttransfer: the host is here in another subnet")

// look finds out how the host is to be taken in.
func (in *intake) look() error {
	if in.merge != NoMerge {
		return nil
	}
	return in.s.DB.View(func(tx *store.Tx) (err error) {
		if in.copied, err = in.inCopy(tx); err == nil {
			in.complete, err = in.keptAll(tx)
		}
		return err
	})
}

// inCopy reports whether the host is in a copy of a subnet of the sender's. If it is in another
// subnet of this peer's, or in a copy of another owner's, the error is errElsewhere.
func (in *intake) inCopy(tx *store.Tx) (bool, error) {
	h, err := tx.Host(in.o.Host)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil || h.Subnet == staging || h.Subnet == in.subnet {
		return false, err
	}
	there, err := tx.Subnet(h.Subnet)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	case there.Phase != store.PhaseReplica || there.Owner != in.from.String():
		return false, fmt.Errorf("%w: %s in %v", errElsewhere, h.Name, h.Subnet)
	}
	return true, nil
}

// take stores what comes. When it returns nil the host is here.
func (in *intake) take(ctx context.Context, c *wire.Conn) error {
	if in.complete {
		return in.end(ctx)
	}
	put := in.store
	switch {
	case in.merge != NoMerge:
	case in.copied:
		put = in.keep
		if err := in.s.DB.DropData(in.space()); err != nil {
			return err
		}
	default:
		if err := in.begin(); err != nil {
			return err
		}
	}
	if err := c.Send(reply{Outcome: outcomeOK}); err != nil {
		return err
	}
	for range maxChunks {
		var part chunk
		if err := c.RecvZ(&part); err != nil {
			return err
		}
		if part.Last {
			if in.copied {
				if err := in.keepOffer(); err != nil {
					return err
				}
			}
			return in.end(ctx)
		}
		if err := part.check(in.o.Host, in.s.URLs.Check); err != nil {
			return err
		}
		if err := put(part); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: too many chunks", errMessage)
}

// begin deletes what is here of the host, and prepares it: its record belongs to no subnet yet,
// so it is in no frontier, no copy changes it, and Sweep finds it.
func (in *intake) begin() error {
	rec := store.Host{Name: in.o.Host, Subnet: staging, Addr: in.o.Addr.Unmap(), Assigned: true}
	if today := store.DayOf(time.Now()); in.o.Day == today {
		rec.Day, rec.DayCount = today, max(in.o.DayCount, 0)
	}
	err := in.s.DB.Update(func(tx *store.Tx) error {
		copied, err := in.inCopy(tx)
		if err == nil && copied && !in.complete { // the copy has just come
			err = errElsewhere
		}
		if err == nil {
			tx.PutHost(rec)
		}
		return err
	})
	if err == nil {
		err = in.s.DB.DropHostIn(staging, rec.Name)
	}
	if err != nil {
		return err
	}
	return in.s.DB.Update(func(tx *store.Tx) error {
		switch _, err := tx.Host(rec.Name); {
		case err == nil:
			return errElsewhere
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		tx.PutHost(rec)
		return nil
	})
}

// update changes the host, unless a copy has come in which it is: that one is the owner's.
func (in *intake) update(fn func(*store.Tx) error) error {
	return in.s.DB.Update(func(tx *store.Tx) error {
		if in.merge == NoMerge {
			if h, err := tx.Host(in.o.Host); err != nil {
				return err
			} else if h.Subnet != staging {
				return errElsewhere
			}
		}
		return fn(tx)
	})
}

// store writes a chunk.
func (in *intake) store(c chunk) error {
	name := in.o.Host
	if in.merge != NoMerge {
		var found []store.Pending
		for _, e := range c.Entries {
			if !e.Kind.Revisit() { // those are planned here too
				found = append(found, store.Pending{URL: e.URL, Depth: e.Depth, Found: time.Now(),
					Kind: e.Kind, Hops: e.Hops, Source: e.Source})
			}
		}
		if err := in.s.Receiver.Route(found); err != nil {
			return err
		}
		if in.merge == MergeURLs {
			return nil
		}
		c.Entries, c.State, c.Visits, c.Robots = nil, nil, nil, nil
	}
	err := in.update(func(tx *store.Tx) error {
		for origin, v := range c.Robots {
			if err := tx.PutRobots(origin, v); err != nil {
				return err
			}
		}
		if c.State != nil {
			if err := tx.PutState(name, c.State); err != nil {
				return err
			}
		}
		return tx.Import(name, c.Entries, nil)
	})
	if err == nil && len(c.Visits)+len(c.GivenUp) > 0 {
		err = in.update(func(tx *store.Tx) error {
			for _, g := range c.GivenUp {
				if err := in.giveUp(tx, g); err != nil {
					return err
				}
			}
			for _, v := range c.Visits {
				if err := tx.PutVisit(v); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err == nil && len(c.Seen) > 0 {
		err = in.update(func(tx *store.Tx) error { return tx.Import(name, nil, c.Seen) })
	}
	in.queued += int64(len(c.Entries))
	in.seen += int64(len(c.Seen))
	return err
}

// giveUp stores the record of a URL that was given up, unless the host was here already and
// knows the URL.
func (in *intake) giveUp(tx *store.Tx, g store.GivenUp) error {
	if in.merge != NoMerge {
		if seen, err := tx.Seen(g.URL); err != nil || seen {
			return err
		}
	}
	return tx.GiveUp(g)
}

// end makes the host one of its new home, on the disk and then in the frontier.
func (in *intake) end(ctx context.Context) error {
	if in.complete {
		if err := in.replay(); err != nil {
			return err
		}
	}
	at := in.nextAt()
	h, err := in.move(at)
	if err != nil || in.merge != NoMerge {
		return err
	}
	return in.s.Receiver.Arrived(ctx, h, in.o.Record, at)
}

// nextAt is the time before which the host must not be asked.
func (in *intake) nextAt() time.Time { return time.Now().Add(min(max(in.o.Wait, 0), maxWait)) }

// move makes the host one of its new home on the disk.
func (in *intake) move(at time.Time) (h store.Host, err error) {
	err = in.update(func(tx *store.Tx) error {
		rec, err := tx.Host(in.o.Host)
		if err != nil || in.merge != NoMerge {
			return err
		}
		rec.Queued, rec.Known = in.queued, max(in.queued, in.seen)
		if rec.NextAt.Before(at) {
			rec.NextAt = at
		}
		if err := tx.MoveHost(in.o.Host, in.subnet, in.o.Addr); err != nil {
			return err
		}
		h = *rec
		return tx.DeleteData(in.offerKey())
	})
	if err == nil {
		err = in.s.DB.Sync()
	}
	if err == nil && in.complete {
		err = in.s.DB.DropData(in.space())
	}
	return h, err
}

// undo takes away what a broken conversation has left.
func (in *intake) undo() error {
	switch {
	case in.merge != NoMerge, in.complete:
		return nil
	case in.copied:
		return in.s.DB.DropData(in.space())
	}
	return in.s.DB.DropHostIn(staging, in.o.Host)
}
