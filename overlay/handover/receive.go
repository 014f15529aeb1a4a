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

	"peerd/overlay/shadow"
	"peerd/overlay/wire"
	"peerd/store"
)

// errTaking refuses an offer while another stream brings the same subnet. The
// sender comes again.
var errTaking = errors.New("the subnet is being received already")

// Heir is what the receiving side asks of the peer it serves; given by
// owner.Manager.
type Heir interface {
	// Consider says whether the subnet is taken. A non-nil lease means that
	// the handover has been completed before.
	Consider(from peer.ID, o Offer) (lease []byte, err error)
	// Adopt makes this peer the owner, durably, and returns its lease.
	Adopt(ctx context.Context, from peer.ID, o Offer, grant []byte, hosts []store.Host) ([]byte, error)
}

// Copies are what this peer has of other peers' subnets; given by
// shadow.Service, whose comments say more.
type Copies interface {
	Copy(p netip.Prefix) (shadow.Held, bool)
	PromoteBy(p netip.Prefix, fn func(pos store.TailPos) error) error
}

var _ Copies = (*shadow.Service)(nil)

// Receiver is the heir's side.
type Receiver struct {
	DB     *store.DB
	Heir   Heir
	Copies Copies
	// Deferred is told how many URLs, by host, have been put aside here: out-links
	// that the old owner had not delivered. Nil: nobody is.
	Deferred func(byHost map[string]int)

	mu     sync.Mutex
	taking map[netip.Prefix]bool // being received
}

// Serve takes handovers until the Server is closed.
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
		return c.Send(reply{Verdict: verdictRefused, Why: err.Error()})
	}
	o.Wait = min(max(o.Wait, 0), maxWait)
	// Two streams would adopt the same subnet. The mark is set before Consider:
	// what that finds cannot be changed by another stream any more.
	if !r.begin(o.Subnet) {
		return c.Send(reply{Verdict: verdictRefused, Why: errTaking.Error()})
	}
	defer r.end(o.Subnet)
	have, err := r.Heir.Consider(from, o)
	switch {
	case err != nil:
		return c.Send(reply{Verdict: verdictRefused, Why: err.Error()})
	case have != nil:
		return c.Send(reply{Verdict: verdictDone, Lease: have})
	}
	h, ok := r.Copies.Copy(o.Subnet)
	if !ok || h.Owner != from || !h.Complete || h.Pos != o.Pos || o.Pos.Log == 0 {
		return c.Send(reply{Verdict: verdictBehind, Pos: h.Pos})
	}
	if err := r.DB.Sync(); err != nil {
		return err
	}
	var cm commit
	if err := exchange(c, reply{Verdict: verdictPrepared, Pos: h.Pos}, &cm); err != nil {
		return err
	}
	l, err := r.adopt(ctx, from, o, cm.Grant)
	if err != nil {
		return err
	}
	return c.Send(done{Lease: l})
}

// adopt makes the subnet ours, if the copy is what was said before.
func (r *Receiver) adopt(ctx context.Context, from peer.ID, o Offer, grant []byte) (lease []byte, err error) {
	err = r.Copies.PromoteBy(o.Subnet, func(pos store.TailPos) error {
		if pos != o.Pos {
			return fmt.Errorf("handover: the copy is at %v, not %v", pos, o.Pos)
		}
		if err := r.takeLinks(o.Subnet); err != nil {
			return err
		}
		var hosts []store.Host
		err := r.DB.View(func(tx *store.Tx) (err error) {
			hosts, err = tx.HostsOf(o.Subnet)
			return err
		})
		if err != nil {
			return err
		}
		lease, err = r.Heir.Adopt(ctx, from, o, grant, hosts)
		return err
	})
	return lease, err
}

// takeLinks puts the out-links aside that the old owner had not delivered. That
// comes first: broken off, it is done again, and nobody minds what is
// delivered twice.
func (r *Receiver) takeLinks(p netip.Prefix) error {
	fresh, err := r.DB.PromoteOutlinks(p)
	if len(fresh) > 0 && r.Deferred != nil {
		byHost := make(map[string]int, len(fresh))
		for _, h := range fresh {
			byHost[h.Host] = h.Count
		}
		r.Deferred(byHost)
	}
	return err
}

// check looks at the form of an offer.
func (o Offer) check() error {
	switch {
	case !o.Subnet.IsValid() || store.SubnetOf(o.Subnet.Addr()) != o.Subnet:
		return fmt.Errorf("%v is no subnet", o.Subnet)
	case o.Epoch < 2:
		return fmt.Errorf("epoch %d is nobody's heir's", o.Epoch)
	case len(o.Evidence) > maxEvidence || o.Estimations < 0:
		return errors.New("the evidence is out of range")
	}
	return nil
}

func (r *Receiver) begin(p netip.Prefix) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taking[p] {
		return false
	}
	if r.taking == nil {
		r.taking = map[netip.Prefix]bool{}
	}
	r.taking[p] = true
	return true
}

func (r *Receiver) end(p netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.taking, p)
}
