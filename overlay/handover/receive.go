package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/replica"
	"peerd/overlay/wire"
	"peerd/store"
)

// errReceiving refuses an offer while another stream of the same owner hands over the same
// subnet. The owner repeats it.
var errReceiving = errors.New("the subnet is being received already")

// Successor is the peer to which subnets are handed over; package owner implements it.
type Successor interface {
	// AcceptOffer returns an error if the peer does not take the subnet. A non-nil lease
	// means that the handover was completed before.
	AcceptOffer(ctx context.Context, from peer.ID, o Offer) (lease []byte, err error)
	// TakeOwnership makes this peer the owner, durably, and returns its lease. The subnet has come
	// with out-links that the old owner had not delivered.
	TakeOwnership(
		ctx context.Context, from peer.ID, o Offer, grant []byte,
	) (lease []byte, err error)
}

// Receiver is the successor's side.
type Receiver struct {
	DB        *store.DB
	Successor Successor
	Copies    *replica.Service

	mu        sync.Mutex
	receiving map[receivingKey]bool // running handovers
}

// receivingKey is the owner and the subnet of a handover. What another peer offers does not keep
// the owner from offering its subnet.
type receivingKey struct {
	from   peer.ID
	subnet netip.Prefix
}

// Serve serves handovers until the returned Server is closed.
func (r *Receiver) Serve(h host.Host, proto protocol.ID, log *slog.Logger) *wire.Server {
	return wire.Serve(h, proto, limits, log, r.handle)
}

func (r *Receiver) handle(ctx context.Context, c *wire.Conn) error {
	from := c.Peer()
	var o Offer
	if err := c.Recv(&o); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return c.Send(reply{Status: statusRefused, Reason: err.Error()})
	}
	// Two streams could take the same subnet. The mark is set before AcceptOffer, so
	// that no other stream changes its result.
	key := receivingKey{from, o.Subnet}
	if !r.begin(key) {
		return c.Send(reply{Status: statusRefused, Reason: errReceiving.Error()})
	}
	defer r.end(key)
	have, err := r.Successor.AcceptOffer(ctx, from, o)
	switch {
	case err != nil:
		return c.Send(reply{Status: statusRefused, Reason: err.Error()})
	case have != nil:
		return c.Send(reply{Status: statusDone, Lease: have})
	}
	h, ok := r.Copies.Copy(o.Subnet)
	if !ok || h.Owner != from || !h.Complete || h.Pos != o.Pos || o.Pos.Log == 0 {
		return c.Send(reply{Status: statusBehind, Pos: h.Pos})
	}
	if err := r.DB.Sync(); err != nil {
		return err
	}
	var cm commit
	if err := exchange(c, reply{Status: statusPrepared, Pos: h.Pos}, &cm); err != nil {
		return err
	}
	l, err := r.commit(ctx, from, o, cm.Grant)
	if err != nil {
		return err
	}
	return c.Send(done{Lease: l})
}

// commit takes the subnet over, if the copy is still at the offered position.
func (r *Receiver) commit(
	ctx context.Context, from peer.ID, o Offer, grant []byte,
) (lease []byte, err error) {
	err = r.Copies.Promote(o.Subnet, func(pos store.LogPos) error {
		if pos != o.Pos {
			return fmt.Errorf("handover: the copy is at %v, want %v", pos, o.Pos)
		}
		lease, err = r.Successor.TakeOwnership(ctx, from, o, grant)
		return err
	})
	return lease, err
}

// check validates the form of an offer.
func (o Offer) check() error {
	switch {
	case !o.Subnet.IsValid() || store.SubnetOf(o.Subnet.Addr()) != o.Subnet:
		return fmt.Errorf("%v is not a subnet", o.Subnet)
	case o.Epoch < 2:
		return fmt.Errorf("epoch is %d, want 2 or more", o.Epoch)
	case len(o.Evidence) > maxEvidence || o.Estimations < 0:
		return errors.New("the evidence is out of range")
	}
	return nil
}

// begin marks a handover as running; false if it is already.
func (r *Receiver) begin(k receivingKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.receiving[k] {
		return false
	}
	if r.receiving == nil {
		r.receiving = map[receivingKey]bool{}
	}
	r.receiving[k] = true
	return true
}

func (r *Receiver) end(k receivingKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.receiving, k)
}
