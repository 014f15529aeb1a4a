package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
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
		return nil, fmt.Errorf("%w: %q", ErrRefused, clip(r.Why))
	}
	sent, err := s.snapshot(c, o)
	if err != nil {
		return nil, fmt.Errorf("%w: snapshot: %w", ErrBroken, err)
	}
	var p prepared
	if err := exchange(c, chunk{End: true}, &p); err != nil {
		return nil, fmt.Errorf("%w: end: %w", ErrBroken, err)
	}
	if p != sent {
		return nil, fmt.Errorf("%w: the heir has %+v of %+v", ErrBroken, p, sent)
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

// clip shortens another peer's words.
func clip(why string) string { return why[:min(len(why), maxReason)] }

// exchange sends one frame and reads the answer.
func exchange(c *wire.Conn, msg, answer any) error {
	if err := c.Send(msg); err != nil {
		return err
	}
	return c.Recv(answer)
}

// snapshot streams all hosts of the subnet, as they are at one moment, and
// returns what it sent. The view that it holds meanwhile keeps the store from
// giving back the space of what is deleted, and no writer waiting.
func (s *Sender) snapshot(conn *wire.Conn, o Offer) (sent prepared, err error) {
	out := outgo{conn: conn}
	err = s.DB.View(func(tx *store.Tx) error {
		hosts, err := tx.HostsOf(o.Subnet)
		if err != nil {
			return err
		}
		for _, h := range hosts {
			if err := out.host(tx, h); err != nil {
				return err
			}
		}
		return nil
	})
	return out.sent, err
}

// outgo sends the chunks of one handover.
type outgo struct {
	conn *wire.Conn
	c    chunk // being filled
	sent prepared
}

// host sends one host: its record and robots.txt, its queue, its seen-set, its
// visits. The queue comes first: what the heir has of a stream that broke holds
// no URL that is seen and neither queued nor fetched.
func (out *outgo) host(tx *store.Tx, h store.Host) error {
	robots, err := robotsOf(tx, h.Name)
	if err != nil {
		return err
	}
	state, err := tx.State(h.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if len(state) > maxState {
		state = nil // it is learned again
	}
	out.sent.Hosts++
	if err := out.conn.Send(chunk{Host: h.Name, Record: &h, Robots: robots, State: state, Rest: max(time.Until(h.NextAt), 0)}); err != nil {
		return err
	}
	out.c = chunk{Host: h.Name}
	err = tx.Queue(h.Name, nil, func(e store.Entry) (bool, error) {
		out.sent.Entries++
		out.c.Entries = append(out.c.Entries, e)
		return true, out.flush(maxChunkEntries)
	})
	if err != nil {
		return err
	}
	err = tx.SeenDigests(h.Name, nil, func(d store.Digest) (bool, error) {
		out.sent.Seen++
		out.c.Seen = append(out.c.Seen, d)
		return true, out.flush(maxChunkSeen)
	})
	if err != nil {
		return err
	}
	err = tx.Visits(h.Name, func(v store.Visit) (bool, error) {
		out.sent.Visits++
		out.c.Visits = append(out.c.Visits, v)
		return true, out.flush(maxChunkVisits)
	})
	if err != nil {
		return err
	}
	return out.flush(1)
}

// flush sends the chunk if it holds so many of one sort.
func (out *outgo) flush(n int) error {
	if len(out.c.Entries) < min(n, maxChunkEntries) && len(out.c.Seen) < n && len(out.c.Visits) < min(n, maxChunkVisits) {
		return nil
	}
	err := out.conn.Send(out.c)
	out.c.Entries, out.c.Seen, out.c.Visits = nil, nil, nil
	return err
}

// robotsOf returns what is kept of the robots.txt files of a host, as far as
// one frame holds it.
func robotsOf(tx *store.Tx, host string) (map[string][]byte, error) {
	robots, size := map[string][]byte{}, 0
	err := tx.RobotsOf(host, func(origin string, v []byte) error {
		if len(robots) < maxRobots && size+len(v) <= maxRobotsBytes {
			robots[origin] = v
			size += len(v)
		}
		return nil
	})
	return robots, err
}
