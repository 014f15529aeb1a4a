package handover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/shadow"
	"peerd/overlay/wire"
	"peerd/store"
)

// Followers keeps copies of our subnets at other peers; given by shadow.Service.
type Followers interface {
	Follow(p netip.Prefix, to peer.ID, o shadow.Open) error
	Await(ctx context.Context, p netip.Prefix, to peer.ID) error
	Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error
	State(p netip.Prefix, to peer.ID) shadow.Follower
}

var _ Followers = (*shadow.Service)(nil)

// Sender is the owner's side.
type Sender struct {
	Host     host.Host
	Protocol protocol.ID
	DB       *store.DB
	Shadows  Followers
}

// Prepare makes a peer a follower of a subnet that goes on being crawled, and
// returns when it has all of it. It is for the time before the subnet is paused; a
// Send without it does the same while it is.
func (s *Sender) Prepare(ctx context.Context, to peer.ID, o shadow.Open) error {
	err := s.Shadows.Follow(o.Subnet, to, o)
	if err == nil {
		err = s.Shadows.Await(ctx, o.Subnet, to)
	}
	switch {
	case errors.Is(err, shadow.ErrRefused), errors.Is(err, shadow.ErrStale):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return nil
}

// Send hands a subnet over and returns the heir's lease. The subnet must be
// paused. grant is called once the heir holds everything; when it returns nil
// the owner must have written down that the subnet is no longer its own.
// Errors wrap ErrRefused, ErrBroken or ErrInDoubt. After success the owner has to
// end what it does for followers of its own (shadow's Demote or Leave), before it
// deletes anything.
func (s *Sender) Send(ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error)) (lease []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if s.Shadows.State(o.Subnet, to).Synced {
		_ = s.Shadows.Flush(ctx, o.Subnet, to) // else the heir says that it is behind
	}
	for range tries {
		var behind bool
		o.Pos, _, _ = s.DB.TailHead(o.Subnet)
		if lease, behind, err = s.offer(ctx, to, o, grant); err != nil || !behind {
			return lease, err
		}
		if err := s.Prepare(ctx, to, o.open()); err != nil {
			return nil, err
		}
		if err := s.Shadows.Flush(ctx, o.Subnet, to); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	return nil, fmt.Errorf("%w: the heir does not get all of it", ErrBroken)
}

// Give hands over a subnet of which this peer has nothing, having lost its disk, to one
// that has a whole copy of it, at o.Pos. Otherwise it is as Send.
func (s *Sender) Give(ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error)) (lease []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	lease, behind, err := s.offer(ctx, to, o, grant)
	if behind {
		return nil, fmt.Errorf("%w: the heir's copy is not at %v", ErrBroken, o.Pos)
	}
	return lease, err
}

// open is what makes the heir a follower. The lease in an Offer is newer than
// what other followers have been shown, and as good.
func (o Offer) open() shadow.Open {
	return shadow.Open{Subnet: o.Subnet, Epoch: o.Epoch - 1, Lease: o.Lease, Evidence: o.Evidence, Estimations: o.Estimations}
}

// offer is one conversation about what o.Pos is the end of.
func (s *Sender) offer(ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error)) (lease []byte, behind bool, err error) {
	c, err := wire.Dial(ctx, s.Host, to, limits, s.Protocol)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer func() { c.End(err) }()
	var r reply
	if err := exchange(c, o, &r); err != nil {
		return nil, false, fmt.Errorf("%w: offer: %w", ErrBroken, err)
	}
	switch r.Verdict {
	case verdictDone:
		return r.Lease, false, nil
	case verdictBehind:
		return nil, true, nil
	case verdictPrepared:
	default:
		return nil, false, fmt.Errorf("%w: %q", ErrRefused, clip(r.Why))
	}
	if r.Pos != o.Pos || o.Pos.Log == 0 {
		return nil, false, fmt.Errorf("%w: the heir is at %v, the log at %v", ErrBroken, r.Pos, o.Pos)
	}
	g, err := grant()
	if err != nil {
		return nil, false, fmt.Errorf("%w: grant: %w", ErrBroken, err)
	}
	var d done
	if err := exchange(c, commit{Grant: g}, &d); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return d.Lease, false, nil
}

// clip shortens another peer's words.
func clip(why string) string { return why[:min(len(why), maxReason)] }

// exchange sends one frame and reads the answer.
func exchange(c *wire.Conn, msg, answer any) error {
	if err := c.Send(msg); err != nil {
		return err
	}
	return c.Recv(answer)
}
