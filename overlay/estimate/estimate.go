// Package estimate lets an owner have one URL of its subnet fetched by another
// peer, whose download time is a sample for the server's proxy coordinate
// (Malet 2009, 3.1.2). It owns the protocol; who asks whom is room owner's
// matter, the fetch itself room crawl's. It may import store and its sibling
// packages lease and wire.
//
//	owner                              estimator
//	  Ask{lease, request}  ----------->  checks the lease, fetches, stores
//	  <-----------  Answer{report}
package estimate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrNotSent means that the estimator certainly does not fetch.
	ErrNotSent = errors.New("estimate: not sent")
	// ErrLost means that the estimator was asked and its answer did not come.
	ErrLost = errors.New("estimate: no answer")
)

const (
	maxMessage = 8 << 20
	// slack is what an answer may take on top of the fetch.
	slack = 5 * time.Second
)

type ask struct {
	Lease   []byte             `cbor:"1,keyasint"`
	Request store.FetchRequest `cbor:"2,keyasint"`
}

type answer struct {
	Refused string            `cbor:"1,keyasint,omitempty"` // why nothing was fetched
	Report  store.FetchReport `cbor:"2,keyasint"`
}

// Fetcher fetches one URL for another owner; given by room crawl.
type Fetcher interface {
	Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error)
}

// Leases checks a lease; given by lease.Registry.
type Leases interface {
	Learn(sealed []byte) (lease.Lease, error)
	Cached(subnet netip.Prefix) (lease.Lease, bool)
}

// Service speaks the protocol in both directions. Its methods may be called at
// once.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Fetcher  Fetcher
	Leases   Leases
	// Check rejects URLs that no peer of this network would send.
	Check func(store.URL) error
	// Timeout bounds one fetch; the answer may take a little longer.
	Timeout time.Duration
	Logger  *slog.Logger
}

// limits are those of one exchange.
func (s *Service) limits() wire.Limits {
	return wire.Limits{MaxMsg: maxMessage, Timeout: s.Timeout + slack}
}

// Serve answers other peers' requests until the Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(), s.Logger, s.handle)
}

// Fetch has a URL fetched by another peer. Errors wrap ErrNotSent or ErrLost.
func (s *Service) Fetch(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (rep store.FetchReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+2*slack)
	defer cancel()
	c, err := wire.Dial(ctx, s.Host, to, s.limits(), s.Protocol)
	if err != nil {
		return rep, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	defer func() { c.End(err) }()
	if err := c.Send(ask{Lease: sealed, Request: r}); err != nil {
		return rep, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	var a answer
	if err := c.Recv(&a); err != nil {
		return rep, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if a.Refused != "" {
		return rep, fmt.Errorf("%w: refused: %.200q", ErrNotSent, a.Refused)
	}
	for _, u := range a.Report.Links {
		if err := s.Check(u); err != nil {
			return rep, fmt.Errorf("%w: foreign link: %w", ErrLost, err)
		}
	}
	return a.Report, nil
}

func (s *Service) handle(ctx context.Context, c *wire.Conn) error {
	var q ask
	if err := c.Recv(&q); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	var a answer
	if err := s.check(c.Peer(), q); err != nil {
		a.Refused = err.Error()
	} else if a.Report, err = s.Fetcher.Errand(ctx, q.Request); err != nil {
		a.Refused = err.Error()
	}
	return c.Send(a)
}

// check refuses whoever is not, to our knowledge, the owner of what it asks
// for.
func (s *Service) check(from peer.ID, q ask) error {
	l, err := s.Leases.Learn(q.Lease)
	if err != nil {
		return err
	}
	if l.Owner != from {
		return errors.New("the lease is somebody else's")
	}
	if best, ok := s.Leases.Cached(l.Subnet); ok && best.Owner != from {
		return fmt.Errorf("the subnet is owned by %s since epoch %d", best.Owner, best.Epoch)
	}
	if store.SubnetOf(q.Request.Addr) != l.Subnet {
		return errors.New("the address is not in the subnet")
	}
	return s.Check(q.Request.URL)
}
