package handover

import (
	"context"
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/replica"
	"peerd/overlay/wire"
	"peerd/store"
)

// Sender is the owner's side.
type Sender struct {
	Host      host.Host
	Protocol  protocol.ID
	DB        *store.DB
	Followers *replica.Service
}

// Send hands a subnet over and returns the successor's lease. The subnet must be
// paused. grant is called when the successor has everything; when it returns nil it must
// be on disk that this peer does not own the subnet any more.
// Errors wrap ErrRefused, ErrBroken or ErrOutcomeUnknown. After success the caller ends
// the followers of the subnet (replica.Service.Demote or Release) before it deletes
// anything.
func (s *Sender) Send(
	ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error),
) (lease []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if s.Followers.State(o.Subnet, to).Synced {
		_ = s.Followers.Flush(ctx, o.Subnet, to) // if it fails, the successor is behind
	}
	for range maxTries {
		var behind bool
		o.Pos, _, _ = s.DB.LogHead(o.Subnet)
		if lease, behind, err = s.offer(ctx, to, o, grant); err != nil || !behind {
			return lease, err
		}
		if err := s.prepare(ctx, to, o); err != nil {
			return nil, err
		}
		if err := s.Followers.Flush(ctx, o.Subnet, to); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
	}
	return nil, fmt.Errorf("%w: the successor does not catch up", ErrBroken)
}

// SendGrant hands over a subnet of which this peer has lost its data, to a peer that has
// a complete copy of it at o.Pos. Otherwise it is like Send.
func (s *Sender) SendGrant(
	ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error),
) (lease []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	lease, behind, err := s.offer(ctx, to, o, grant)
	if behind {
		return nil, fmt.Errorf("%w: the successor's copy is not at %v", ErrBroken, o.Pos)
	}
	return lease, err
}

// prepare makes a peer a follower of a subnet and returns when it has a complete copy.
func (s *Sender) prepare(ctx context.Context, to peer.ID, o Offer) error {
	err := s.Followers.Follow(o.Subnet, to, o.Epoch-1)
	if err == nil {
		err = s.Followers.Await(ctx, o.Subnet, to)
	}
	switch {
	case errors.Is(err, replica.ErrRefused), errors.Is(err, replica.ErrStale):
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return nil
}

// offer makes one offer, with the log at o.Pos.
func (s *Sender) offer(
	ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error),
) (lease []byte, behind bool, err error) {
	c, err := wire.Dial(ctx, s.Host, to, limits, s.Protocol)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer func() { c.End(err) }()
	var r reply
	if err := exchange(c, o, &r); err != nil {
		return nil, false, fmt.Errorf("%w: offer: %w", ErrBroken, err)
	}
	switch r.Status {
	case statusDone:
		return r.Lease, false, nil
	case statusBehind:
		return nil, true, nil
	case statusPrepared:
	default:
		return nil, false, fmt.Errorf("%w: %q", ErrRefused, clip(r.Reason))
	}
	if r.Pos != o.Pos || o.Pos.Log == 0 {
		return nil, false, fmt.Errorf("%w: the successor is at %v, the log at %v",
			ErrBroken, r.Pos, o.Pos)
	}
	g, err := grant()
	if err != nil {
		return nil, false, fmt.Errorf("%w: grant: %w", ErrBroken, err)
	}
	var d done
	if err := exchange(c, commit{Grant: g}, &d); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
	}
	return d.Lease, false, nil
}

// clip shortens another peer's text.
func clip(text string) string { return text[:min(len(text), maxReason)] }

// exchange sends a message and receives the answer.
func exchange(c *wire.Conn, msg, answer any) error {
	if err := c.Send(msg); err != nil {
		return err
	}
	return c.Recv(answer)
}
