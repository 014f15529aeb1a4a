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

// stream sends what is kept of a host in chunks; no transaction is open while one is sent. The
// host is out of the frontier, so nothing of it changes meanwhile.
func (s *Service) stream(conn *wire.Conn, host string) error {
	var head chunk
	err := s.DB.View(func(tx *store.Tx) (err error) {
		head, err = headOf(tx, host)
		return err
	})
	if err == nil {
		err = conn.SendZ(head)
	}
	var key []byte // of the last item
	var last *store.Digest
	// all entries come before what is seen
	for _, read := range []func(*store.Tx, *chunk) error{
		func(tx *store.Tx, c *chunk) error {
			return tx.Queue(host, key, func(e store.Entry) (bool, error) {
				c.Entries, key = append(c.Entries, e), e.Key
				return len(c.Entries) < maxItems, nil
			})
		},
		func(tx *store.Tx, c *chunk) error {
			return tx.Visits(host, last, func(v store.Visit) (bool, error) {
				d := v.URL.Digest()
				c.Visits, last = append(c.Visits, v), &d
				return len(c.Visits) < maxItems, nil
			})
		},
		func(tx *store.Tx, c *chunk) error {
			return tx.EachGivenUp(host, key, func(g store.GivenUp) (bool, error) {
				c.GivenUp, key = append(c.GivenUp, g), g.Key
				return len(c.GivenUp) < maxItems, nil
			})
		},
		func(tx *store.Tx, c *chunk) error {
			return tx.SeenDigests(host, last, func(d store.Digest) (bool, error) {
				c.Seen, last = append(c.Seen, d), &d
				return len(c.Seen) < maxSeen, nil
			})
		},
	} {
		key, last = nil, nil
		for more := true; more && err == nil; {
			var c chunk
			err = s.DB.View(func(tx *store.Tx) error { return read(tx, &c) })
			if more = !c.empty(); more && err == nil {
				err = conn.SendZ(c)
			}
		}
	}
	return err
}

// empty reports whether a chunk has no items.
func (c *chunk) empty() bool {
	return len(c.Entries)+len(c.Visits)+len(c.GivenUp)+len(c.Seen) == 0
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
