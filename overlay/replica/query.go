package replica

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// Any peer may ask which copies another peer keeps of some subnets: for example one that
// has found a subnet without an owner, or has lost its own disk. Replies are not signed
// and commit the sender to nothing.

// MaxQuery is how many subnets a query may name.
const MaxQuery = 64

// RemoteCopy describes a copy as the peer that keeps it reports it.
type RemoteCopy struct {
	Subnet   netip.Prefix `cbor:"1,keyasint"`
	Owner    peer.ID      `cbor:"2,keyasint"`
	Epoch    uint64       `cbor:"3,keyasint"`
	Complete bool         `cbor:"4,keyasint,omitempty"`
	Pos      LogPos       `cbor:"5,keyasint"`
	// SinceConfirmed is how long ago its owner last counted on it; negative if unknown.
	SinceConfirmed time.Duration `cbor:"6,keyasint"`
}

// copyQuery asks for copies, or reports them.
type copyQuery struct {
	Subnets []netip.Prefix `cbor:"1,keyasint"`
	// Report means that the sender keeps copies of these subnets, and the receiver
	// should update them.
	Report bool `cbor:"2,keyasint,omitempty"`
}

// copyReply answers a copyQuery.
type copyReply struct {
	Copies []RemoteCopy `cbor:"1,keyasint,omitempty"`
}

// queryLimits bound a query and its reply, queryRate how often a peer may ask.
var (
	queryLimits = wire.Limits{MaxMsg: 32 << 10, Timeout: 5 * time.Second}
	queryRate   = wire.Rate{PerSecond: 5, Burst: 50, TotalFactor: 10}
)

// QueryCopies asks a peer for the copies that it keeps of up to MaxQuery subnets. The
// result contains at most one copy of each, and none of other subnets.
func (s *Service) QueryCopies(
	ctx context.Context, to peer.ID, subnets []netip.Prefix,
) ([]RemoteCopy, error) {
	return s.query(ctx, to, copyQuery{Subnets: subnets})
}

// ReportCopies tells an owner that this peer keeps copies of up to MaxQuery of its
// subnets that the owner has not updated for long, although it is running: it may have
// lost its disk.
func (s *Service) ReportCopies(ctx context.Context, owner peer.ID, subnets []netip.Prefix) error {
	_, err := s.query(ctx, owner, copyQuery{subnets, true})
	return err
}

func (s *Service) query(
	ctx context.Context, to peer.ID, q copyQuery,
) (copies []RemoteCopy, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*queryLimits.Timeout)
	defer cancel()
	var r copyReply
	err = wire.Ask(ctx, s.cfg.Host, to, queryLimits, s.cfg.QueryProtocol, q, &r)
	if err != nil {
		return nil, fmt.Errorf("replica: ask %v for copies: %w", to, err)
	}
	asked := map[netip.Prefix]bool{}
	for _, p := range q.Subnets {
		asked[p] = true
	}
	return slices.DeleteFunc(r.Copies, func(x RemoteCopy) bool {
		unwanted := !asked[x.Subnet] || x.Pos.Seq > maxSeq
		asked[x.Subnet] = false
		return unwanted
	}), nil
}

// answerQuery answers one query. The Policy is told which copies were found, because the
// sender has a reason to ask for them.
func (s *Service) answerQuery(_ context.Context, c *wire.Conn) error {
	var q copyQuery
	if err := c.Recv(&q); err != nil {
		return err
	}
	now := time.Now()
	if len(q.Subnets) > MaxQuery || !s.limiter.Allow(queryRate, c.Peer(), now) {
		return fmt.Errorf("replica: %v asks too often or for too many subnets", c.Peer())
	}
	var r copyReply
	for _, p := range q.Subnets {
		if q.Report {
			s.cfg.Policy.CopyReported(p)
		}
		h, ok := s.Copy(p)
		if !ok || q.Report {
			continue
		}
		x := RemoteCopy{Subnet: p, Owner: h.Owner, Epoch: h.Epoch, Complete: h.Complete, Pos: h.Pos,
			SinceConfirmed: -1}
		if !h.Confirmed.IsZero() {
			x.SinceConfirmed = max(0, now.Sub(h.Confirmed))
		}
		r.Copies = append(r.Copies, x)
		s.cfg.Policy.CopyRequested(p)
	}
	return c.Send(r)
}
