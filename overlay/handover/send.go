package handover

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/wire"
	"peerd/store"
)

// Sender is the owner's side.
type Sender struct {
	Host     host.Host
	Protocol protocol.ID
	DB       *store.DB
}

// Send hands a subnet over and returns the heir's lease. The subnet must be
// paused. grant is called once the heir holds everything; when it returns nil
// the owner must have written down that the subnet is no longer its own.
// Errors wrap ErrRefused, ErrBroken or ErrInDoubt.
func (s *Sender) Send(ctx context.Context, to peer.ID, o Offer, grant func() ([]byte, error)) (lease []byte, err error) {
	c, err := wire.Dial(ctx, s.Host, to, limits, s.Protocol)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	defer func() { c.End(err) }()

	var r reply
	if err := exchange(c, o, &r); err != nil {
		return nil, fmt.Errorf("%w: offer: %w", ErrBroken, err)
	}
	switch r.Verdict {
	case verdictDone:
		return r.Lease, nil
	case verdictOK:
	default:
		return nil, fmt.Errorf("%w: %s", ErrRefused, r.Why)
	}
	if err := s.snapshot(c, o); err != nil {
		return nil, fmt.Errorf("%w: snapshot: %w", ErrBroken, err)
	}
	var p prepared
	if err := exchange(c, chunk{End: true}, &p); err != nil {
		return nil, fmt.Errorf("%w: end: %w", ErrBroken, err)
	}
	g, err := grant()
	if err != nil {
		return nil, fmt.Errorf("%w: grant: %w", ErrBroken, err)
	}
	var d done
	if err := exchange(c, commit{Grant: g}, &d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInDoubt, err)
	}
	return d.Lease, nil
}

// exchange sends one frame and reads the answer.
func exchange(c *wire.Conn, msg, answer any) error {
	if err := c.Send(msg); err != nil {
		return err
	}
	return c.Recv(answer)
}

// snapshot streams all hosts of the subnet.
func (s *Sender) snapshot(conn *wire.Conn, o Offer) error {
	return s.DB.View(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(o.Subnet)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if err := sendHost(tx, conn, h); err != nil {
				return err
			}
		}
		return nil
	})
}

func sendHost(tx *store.Tx, conn *wire.Conn, h store.Host) error {
	first := chunk{Host: h.Name, Record: &h, Robots: map[string][]byte{}}
	err := tx.RobotsOf(h.Name, func(origin string, v []byte) error {
		if len(first.Robots) < maxRobots {
			first.Robots[origin] = v
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := conn.Send(first); err != nil {
		return err
	}
	c := chunk{Host: h.Name}
	flush := func(full bool) error {
		if !full || len(c.Entries)+len(c.Seen) == 0 {
			return nil
		}
		err := conn.Send(c)
		c.Entries, c.Seen = nil, nil
		return err
	}
	err = tx.Queue(h.Name, nil, func(e store.Entry) (bool, error) {
		c.Entries = append(c.Entries, e)
		return true, flush(len(c.Entries) == maxChunkEntries)
	})
	if err != nil {
		return err
	}
	if err := flush(true); err != nil {
		return err
	}
	err = tx.SeenDigests(h.Name, nil, func(d store.Digest) (bool, error) {
		c.Seen = append(c.Seen, d)
		return true, flush(len(c.Seen) == maxChunkSeen)
	})
	if err != nil {
		return err
	}
	return flush(true)
}
