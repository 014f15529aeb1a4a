package hosttransfer

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// Transfer sends a host to another peer. The host must be out of the frontier. When it
// returns nil the other peer has all of it on disk. ErrRefused means that the peer does
// not take the host; after any other error it may have it, so repeat the call. Several
// hosts may be transferred at once.
func (s *Service) Transfer(ctx context.Context, to peer.ID, o Offer) error {
	return s.converse(ctx, to, o, func(c *wire.Conn) error { return s.stream(c, o.Host) })
}

// converse offers something to another peer, and sends what it accepts with stream.
func (s *Service) converse(
	ctx context.Context, to peer.ID, o Offer, stream func(*wire.Conn) error,
) (err error) {
	c, err := wire.Dial(ctx, s.Host, to, limits, s.Protocol)
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()
	done, err := ask(c, c.Send, o)
	if done || err != nil {
		return err
	}
	if err := stream(c); err != nil {
		return err
	}
	done, err = ask(c, c.SendZ, chunk{Last: true})
	if err == nil && !done {
		err = fmt.Errorf("%w: last chunk not acknowledged", errMessage)
	}
	return err
}

// ask sends a frame and says whether the other peer has the host.
func ask(c *wire.Conn, send func(any) error, msg any) (done bool, err error) {
	if err := send(msg); err != nil {
		return false, err
	}
	var r reply
	if err := c.Recv(&r); err != nil {
		return false, err
	}
	switch {
	case r.Outcome == outcomeRefused && r.Why == whyBusy:
		return false, ErrBusy
	case r.Outcome == outcomeRefused:
		return false, fmt.Errorf("%w: %s", ErrRefused, r.Why[:min(len(r.Why), maxReason)])
	}
	return r.Outcome == outcomeDone, nil
}

// stream sends what is kept of a host.
func (s *Service) stream(conn *wire.Conn, host string) error {
	var c chunk
	flush := func(n int) error {
		if len(c.Entries) < min(n, maxItems) && len(c.Visits) < min(n, maxItems) &&
			len(c.GivenUp) < min(n, maxItems) && len(c.Seen) < min(n, maxSeen) {
			return nil
		}
		err := conn.SendZ(c)
		c = chunk{}
		return err
	}
	return s.DB.View(func(tx *store.Tx) error {
		head, err := headOf(tx, host)
		if err == nil {
			err = conn.SendZ(head)
		}
		if err == nil {
			err = tx.Queue(host, nil, func(e store.Entry) (bool, error) {
				c.Entries = append(c.Entries, e)
				return true, flush(maxItems)
			})
		}
		if err == nil {
			err = flush(1) // all entries come before what is seen
		}
		if err == nil {
			err = tx.Visits(host, func(v store.Visit) (bool, error) {
				c.Visits = append(c.Visits, v)
				return true, flush(maxItems)
			})
		}
		if err == nil {
			err = tx.EachGivenUp(host, nil, func(g store.GivenUp) (bool, error) {
				c.GivenUp = append(c.GivenUp, g)
				return true, flush(maxItems)
			})
		}
		if err == nil {
			err = tx.SeenDigests(host, func(d store.Digest) (bool, error) {
				c.Seen = append(c.Seen, d)
				return true, flush(maxSeen)
			})
		}
		if err == nil {
			err = flush(1)
		}
		return err
	})
}

// headOf is the first chunk: what there is one of.
func headOf(tx *store.Tx, host string) (c chunk, err error) {
	c.State, err = tx.State(host)
	if err = store.IgnoreNotFound(err); err != nil {
		return c, err
	}
	if len(c.State) > maxBytes {
		c.State = nil // it is learned again
	}
	c.Robots = map[string][]byte{}
	size := 0
	err = tx.RobotsOf(host, func(origin string, v []byte) error {
		if size += len(v); len(c.Robots) < maxRobots && size <= maxBytes {
			c.Robots[origin] = v
		}
		return nil
	})
	return c, err
}
