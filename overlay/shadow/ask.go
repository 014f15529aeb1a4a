package shadow

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// Any peer may ask which copies another keeps of some subnets: one that has found a
// subnet without an owner, or that has lost its own disk. The answer is the word of
// who gives it, and binds nobody.

// MaxAsked is how many subnets a peer may be asked about at once.
const MaxAsked = 64

// Copy is what a peer says of a copy that it keeps.
type Copy struct {
	Subnet   netip.Prefix `cbor:"1,keyasint"`
	Owner    peer.ID      `cbor:"2,keyasint"`
	Epoch    uint64       `cbor:"3,keyasint"`
	Complete bool         `cbor:"4,keyasint,omitempty"`
	Pos      TailPos      `cbor:"5,keyasint"`
	// Ago is how long ago its owner counted on it last; negative if nobody knows.
	Ago time.Duration `cbor:"6,keyasint"`
}

type question struct {
	Subnets []netip.Prefix `cbor:"1,keyasint"`
	// Yours says that who asks keeps copies of these that the asked one should follow up.
	Yours bool `cbor:"2,keyasint,omitempty"`
}

type reply struct {
	Copies []Copy `cbor:"1,keyasint,omitempty"`
}

// askLimits are those of a question and its answer, askRate how often one is answered.
var (
	askLimits = wire.Limits{MaxMsg: 32 << 10, Timeout: 5 * time.Second}
	askRate   = wire.Rate{PerSecond: 5, AtOnce: 50, Together: 10}
)

// Ask asks a peer for the copies that it keeps of up to MaxAsked subnets. What comes
// back is only of these, at most one of each.
func (s *Service) Ask(ctx context.Context, to peer.ID, subnets []netip.Prefix) ([]Copy, error) {
	return s.ask(ctx, to, question{Subnets: subnets})
}

// Remind tells an owner of copies here, of up to MaxAsked of its subnets, that it has not
// followed up for long, though it is there: it may have lost its disk.
func (s *Service) Remind(ctx context.Context, owner peer.ID, subnets []netip.Prefix) error {
	_, err := s.ask(ctx, owner, question{subnets, true})
	return err
}

func (s *Service) ask(ctx context.Context, to peer.ID, q question) (copies []Copy, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*askLimits.Timeout)
	defer cancel()
	c, err := wire.Dial(ctx, s.cfg.Host, to, askLimits, s.cfg.Asking)
	if err != nil {
		return nil, fmt.Errorf("shadow: ask %v for copies: %w", to, err)
	}
	defer func() { c.End(err) }()
	var r reply
	if err = c.Send(q); err == nil {
		err = c.Recv(&r)
	}
	if err != nil {
		return nil, fmt.Errorf("shadow: ask %v for copies: %w", to, err)
	}
	asked := map[netip.Prefix]bool{}
	for _, p := range q.Subnets {
		asked[p] = true
	}
	return slices.DeleteFunc(r.Copies, func(x Copy) bool {
		odd := !asked[x.Subnet] || x.Pos.Seq > maxSeq
		asked[x.Subnet] = false
		return odd
	}), nil
}

// tellCopies answers one question. The Keeper is told of what was found, as who asks
// has reason to.
func (s *Service) tellCopies(_ context.Context, c *wire.Conn) error {
	var q question
	if err := c.Recv(&q); err != nil {
		return err
	}
	now := time.Now()
	if len(q.Subnets) > MaxAsked || !s.asked.Allow(askRate, c.Peer(), now) {
		return fmt.Errorf("shadow: %v asks too much", c.Peer())
	}
	var r reply
	for _, p := range q.Subnets {
		if q.Yours {
			s.cfg.Keeper.Reminded(p)
		}
		h, ok := s.Copy(p)
		if !ok || q.Yours {
			continue
		}
		x := Copy{Subnet: p, Owner: h.Owner, Epoch: h.Epoch, Complete: h.Complete, Pos: h.Pos, Ago: -1}
		if !h.Counted.IsZero() {
			x.Ago = max(0, now.Sub(h.Counted))
		}
		r.Copies = append(r.Copies, x)
		s.cfg.Keeper.Wanted(p)
	}
	return c.Send(r)
}
