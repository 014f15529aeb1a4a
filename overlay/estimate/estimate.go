package estimate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/sync/singleflight"

	"peerd/internal/backoff"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
	"peerd/store"
)

var (
	// ErrNotSent means that the estimator has not sent a request to the server and will not.
	ErrNotSent = errors.New("estimate: not sent")
	// ErrRefused wraps ErrNotSent: the estimator has said that it will not.
	ErrRefused = fmt.Errorf("%w: refused", ErrNotSent)
	// ErrNoReply means that the estimator may have sent a request, but its report did not
	// arrive.
	ErrNoReply = errors.New("estimate: no reply")
)

// Fetcher fetches URLs for other owners. Package crawl provides it.
type Fetcher interface {
	// RemoteFetch fetches a URL. When the turn of its request has come it calls waits once, and
	// requests nothing if that returns false. Its error wraps ErrNotSent if no request was sent to
	// the server.
	RemoteFetch(ctx context.Context, r store.FetchRequest, waits func() bool) (
		store.FetchReport, error)
	// Connect opens a connection to the URL's server at the given address and closes it. The
	// report has an outcome and Timing.Connect. Its error wraps ErrNotSent if no connection was
	// attempted.
	Connect(ctx context.Context, r store.FetchRequest) (store.FetchReport, error)
	// Check returns an error for URLs that no peer of this network sends.
	Check(u store.URL) error
}

// Leases checks leases. lease.Registry implements it.
type Leases interface {
	// Confirm handles a signed lease and returns the best known lease of its subnet. It may ask
	// other peers.
	Confirm(ctx context.Context, sealed []byte) (lease.Lease, error)
}

// Service implements both sides of the protocol. Its methods may be called concurrently.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Fetcher  Fetcher
	Leases   Leases
	// MayFetch reports whether this peer may have pages of a subnet fetched now, as its owner. Nil:
	// always.
	MayFetch func(netip.Prefix) bool
	// Timeout bounds one fetch; the Fetcher enforces it. The reply may take a little longer.
	Timeout time.Duration
	// Peers are the other peers of the network, as far as is known.
	Peers  interface{ Len() int }
	Logger *slog.Logger

	lookups   wire.Limiter
	connects  wire.Limiter
	files     wire.Limiter
	allowance allowance
	underWay  singleflight.Group // requests that wait or are carried out
}

// Serve answers requests until the returned Server is closed.
func (s *Service) Serve() *wire.Server {
	return wire.Serve(s.Host, s.Protocol, s.limits(maxRequest), s.Logger, s.handle)
}

// Fetch asks another peer to fetch a URL. Errors wrap ErrNotSent or ErrNoReply. Links of the
// report that Check rejects are left out.
func (s *Service) Fetch(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	return s.do(ctx, to, request{Lease: sealed, Request: r})
}

// Connect asks another peer to open a connection to the server of a URL and close it. Errors
// wrap ErrNotSent or ErrNoReply. Only the outcome and the connection time of the report are
// returned.
func (s *Service) Connect(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	rep, err := s.do(ctx, to, request{Lease: sealed, Request: r, Connect: true})
	return store.FetchReport{Outcome: rep.Outcome,
		Timing: store.Timing{Connect: rep.Timing.Connect}}, err
}

// do sends one request and waits for its response.
func (s *Service) do(
	ctx context.Context, to peer.ID, q request,
) (rep store.FetchReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+3*slack)
	defer cancel()
	c, err := wire.Dial(ctx, s.Host, to, s.limits(maxResponse), s.Protocol)
	if err != nil {
		return rep, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	defer func() { c.End(err) }()
	if err := c.Send(q); err != nil {
		return rep, noReply(err) // what was written may arrive
	}
	a, err := s.receive(c, store.SubnetOf(q.Request.Addr))
	if errors.Is(err, ErrNotSent) {
		return rep, err
	}
	if err != nil {
		return rep, noReply(err)
	}
	if a.Refused != "" {
		return rep, fmt.Errorf("%w: %.*q", ErrRefused, maxReason, a.Refused)
	}
	return s.accept(a.Report)
}

// receive receives the response to a request. If it is asked before whether it still waits, it says
// so, unless the subnet may have another owner by now.
func (s *Service) receive(c *wire.Conn, subnet netip.Prefix) (response, error) {
	var a response
	err := c.RecvZ(&a)
	if err != nil || !a.Turn {
		return a, err
	}
	if s.MayFetch != nil && !s.MayFetch(subnet) {
		return response{}, fmt.Errorf("%w: %v may have another owner", ErrNotSent, subnet)
	}
	if err := c.Send(stillWaiting{}); err != nil {
		return response{}, err
	}
	a = response{}
	err = c.RecvZ(&a)
	return a, err
}

// accept validates a report and removes or limits what an honest peer would not report.
func (s *Service) accept(rep store.FetchReport) (store.FetchReport, error) {
	if err := plausible(rep, s.Timeout); err != nil {
		return store.FetchReport{}, fmt.Errorf("%w: bad report: %w", ErrNoReply, err)
	}
	rep.RetryAfter = min(rep.RetryAfter, maxRetryAfter)
	rep.Links = slices.DeleteFunc(rep.Links, func(u store.URL) bool {
		return len(u) > maxURL || s.Fetcher.Check(u) != nil
	})
	return rep, nil
}

// noReply wraps an error that occurred after the request was sent: with ErrNotSent if the
// estimator refused the stream because it was busy, otherwise with ErrNoReply.
func noReply(err error) error {
	var reset *network.StreamError
	if errors.As(err, &reset) && reset.Remote && reset.ErrorCode == network.StreamRateLimited {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return fmt.Errorf("%w: %w", ErrNoReply, err)
}

func (s *Service) handle(ctx context.Context, c *wire.Conn) error {
	var q request
	if err := c.Recv(&q); err != nil {
		return err
	}
	a, err := s.answer(ctx, c.Peer(), c.Old(), q, func() bool { return waits(c) })
	if err != nil {
		return err
	}
	return c.SendZ(a)
}

// waits reports whether the owner at the other end still waits for a response. After turnTime it
// resets the stream.
func waits(c *wire.Conn) bool {
	late := time.AfterFunc(turnTime, c.Reset)
	defer late.Stop()
	var yes stillWaiting
	return c.SendZ(response{Turn: true}) == nil && c.Recv(&yes) == nil
}

// answer carries out a request, or joins the same one while that waits or is carried out: the
// owner, which may have been restarted, must not take a refusal for a sign that nothing is sent.
// old says whether from has been known for long, and waits whether it still waits for a response.
// The error says that a request may have been sent, so that the response must not be a refusal, or
// is errLost or that of ctx.
func (s *Service) answer(
	ctx context.Context, from peer.ID, old bool, q request, waits func() bool,
) (response, error) {
	subnet, err := s.check(ctx, from, old, q)
	if err != nil {
		return refusal(err), nil
	}
	key := fmt.Sprint(q.Connect, q.Request.File, q.Request.Addr, q.Request.URL)
	a, err, _ := s.underWay.Do(key, func() (any, error) {
		return s.carryOut(ctx, old, subnet, q, waits)
	})
	return a.(response), err
}

// refusal is the response to a request for which nothing was sent, with the reason.
func refusal(err error) response { return response{Refused: err.Error()} }

// errLost says that the owner was lost while its request waited. An owner that was restarted may
// not know of the request, and ask the site itself; of one that cannot be reached another peer may
// be the successor.
var errLost = errors.New("estimate: lost the owner of a request that waited")

// carryOut carries out a valid request when its turn comes, unless its owner is lost by then.
func (s *Service) carryOut(
	ctx context.Context, old bool, subnet netip.Prefix, q request, waits func() bool,
) (response, error) {
	// A fetch ends with a report after Timeout. This context stops one that does not, because
	// the owner no longer waits for it.
	ctx, cancel := context.WithTimeout(ctx, s.Timeout+slack)
	defer cancel()
	if q.Connect || !q.Request.File {
		wait, err := s.allowance.take(old, subnet, s.Peers.Len(), time.Now())
		if err != nil {
			return refusal(err), nil
		}
		if err := backoff.Sleep(ctx, wait); err != nil {
			return response{}, err
		}
	}
	var rep store.FetchReport
	var err error
	switch {
	case !q.Connect:
		rep, err = s.Fetcher.RemoteFetch(ctx, q.Request, waits)
	case !waits():
		return response{}, errLost
	default:
		rep, err = s.Fetcher.Connect(ctx, q.Request)
	}
	if errors.Is(err, ErrNotSent) {
		return refusal(err), nil
	}
	return response{Report: rep}, err
}

// check returns the subnet of a request. It returns an error if the request is invalid, if from
// does not, as far as we know, own the subnet, or if it requests too much. old says whether from
// has been known for long.
func (s *Service) check(
	ctx context.Context, from peer.ID, old bool, q request,
) (subnet netip.Prefix, err error) {
	if len(q.Request.URL) > maxURL || q.Request.Depth < 0 || q.Request.Depth > maxDepth {
		return subnet, errors.New("request out of range")
	}
	if err := s.Fetcher.Check(q.Request.URL); err != nil {
		return subnet, err
	}
	now := time.Now()
	who := from
	if !old {
		who = "" // all new ones together
	}
	if !s.lookups.Allow(lookupRate, who, now) {
		return subnet, errors.New("too many leases to look up")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	best, err := s.Leases.Confirm(ctx, q.Lease)
	switch {
	case err != nil:
		return subnet, err
	case best.Owner != from:
		return subnet, fmt.Errorf("subnet %v is owned by %s since epoch %d",
			best.Subnet, best.Owner, best.Epoch)
	case store.SubnetOf(q.Request.Addr) != best.Subnet:
		return subnet, fmt.Errorf("address is not in subnet %v", best.Subnet)
	}
	if q.Connect && !s.connects.Allow(connectRate, from, now) {
		return subnet, errors.New("too many connections requested")
	}
	if q.Request.File && !q.Connect && !s.files.Allow(fileRate, from, now) {
		return subnet, errors.New("too many files requested")
	}
	return best.Subnet, nil
}
