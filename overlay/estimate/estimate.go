package estimate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
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

// Fetcher fetches one URL for another owner; given by room crawl.
type Fetcher interface {
	// Errand's error wraps ErrNotSent when no request was sent to the server.
	Errand(ctx context.Context, r store.FetchRequest) (store.FetchReport, error)
	// Connect opens a connection to the URL's server at the address and closes
	// it. Errors as Errand's. The report has an outcome and Timing.Connect.
	Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error)
}

// Leases checks a lease; given by lease.Registry.
type Leases interface {
	// Learn takes in a sealed lease and returns the best known of its subnet.
	Learn(sealed []byte) (lease.Lease, error)
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
	// Timeout bounds one fetch, which Fetcher sees to; the answer may take a
	// little longer.
	Timeout time.Duration
	Logger  *slog.Logger

	connects wire.Limiter
}

// Serve answers other peers' requests until the Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(maxAsk), s.Logger, s.handle)
}

// Fetch has a URL fetched by another peer. Errors wrap ErrNotSent or ErrLost.
// Links of the report that are no URLs of this network are left out; nobody but
// the caller knows of the others.
func (s *Service) Fetch(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport, error) {
	return s.ask(ctx, to, ask{Lease: sealed, Request: r})
}

// Connect has another peer open a connection to the server of a URL, and close
// it. Errors wrap ErrNotSent or ErrLost. Of the report only the outcome and the
// time of the connection are taken.
func (s *Service) Connect(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport, error) {
	rep, err := s.ask(ctx, to, ask{Lease: sealed, Request: r, Connect: true})
	return store.FetchReport{Outcome: rep.Outcome, Timing: store.Timing{Connect: rep.Timing.Connect}}, err
}

// ask has one conversation.
func (s *Service) ask(ctx context.Context, to peer.ID, q ask) (rep store.FetchReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+3*slack)
	defer cancel()
	c, err := wire.Dial(ctx, s.Host, to, s.limits(maxAnswer), s.Protocol)
	if err != nil {
		return rep, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	defer func() { c.End(err) }()
	if err := c.Send(q); err != nil {
		return rep, lost(err) // what was written may arrive all the same
	}
	var a answer
	if err := c.RecvZ(&a); err != nil {
		return rep, lost(err)
	}
	if a.Refused != "" {
		return rep, fmt.Errorf("%w: refused: %.*q", ErrNotSent, maxReason, a.Refused)
	}
	return s.accept(a.Report)
}

// accept returns what is believed of a report, or why it is none of an honest
// peer.
func (s *Service) accept(rep store.FetchReport) (store.FetchReport, error) {
	if err := plausible(rep, s.Timeout); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: bad report: %w", ErrLost, err)
	}
	rep.RetryAfter = min(rep.RetryAfter, maxRetryAfter)
	rep.Links = slices.DeleteFunc(rep.Links, func(u store.URL) bool { return len(u) > maxURL || s.Check(u) != nil })
	return rep, nil
}

// lost wraps the error of a conversation that was begun: ErrNotSent if the
// other side had no place for it, else ErrLost.
func lost(err error) error {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote && reset.ErrorCode == network.StreamRateLimited {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

func (s *Service) handle(ctx context.Context, c *wire.Conn) error {
	var q ask
	if err := c.Recv(&q); err != nil {
		return err
	}
	if err := s.check(c.Peer(), q); err != nil {
		return c.SendZ(answer{Refused: err.Error()})
	}
	// The fetch ends by itself, with a report, after Timeout; this is for one
	// that does not, as the asker will not hear of it any more.
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+slack)
	defer cancel()
	do := s.Fetcher.Errand
	if q.Connect {
		do = s.Fetcher.Connect
	}
	rep, err := do(ctx, q.Request)
	switch {
	case errors.Is(err, ErrNotSent):
		return c.SendZ(answer{Refused: err.Error()})
	case err != nil: // something may have been sent: say nothing rather than "no"
		return err
	}
	return c.SendZ(answer{Report: rep})
}

// check refuses whoever is not, to our knowledge, the owner of what it asks
// for.
func (s *Service) check(from peer.ID, q ask) error {
	best, err := s.Leases.Learn(q.Lease)
	if err != nil {
		return err
	}
	switch {
	case best.Owner != from:
		return fmt.Errorf("the subnet %v is owned by %s since epoch %d", best.Subnet, best.Owner, best.Epoch)
	case store.SubnetOf(q.Request.Addr) != best.Subnet:
		return fmt.Errorf("the address is not in the subnet %v", best.Subnet)
	case len(q.Request.URL) > maxURL || q.Request.Depth < 0 || q.Request.Depth > maxDepth:
		return errors.New("the request is out of range")
	}
	if err := s.Check(q.Request.URL); err != nil || !q.Connect {
		return err
	}
	if !s.connects.Allow(connectRate, from, time.Now()) {
		return errors.New("too many connections asked for")
	}
	return nil
}
