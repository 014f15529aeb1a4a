package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

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

// Receiver is the heir's side.
type Receiver struct {
	DB   *store.DB
	Heir Heir
	// Check rejects URLs that no peer of this network would send.
	Check func(store.URL) error

	mu     sync.Mutex
	taking map[netip.Prefix]bool // being received
}

// Serve takes handovers until the Server is closed.
func (r *Receiver) Serve(h host.Host, proto protocol.ID, log *slog.Logger) *wire.Server {
	return wire.Serve(h, proto, limits, log, r.handle)
}

func (r *Receiver) handle(ctx context.Context, c *wire.Conn) error {
	defer time.AfterFunc(maxTime, c.Reset).Stop()
	from := c.Peer()
	var o Offer
	if err := c.Recv(&o); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return c.Send(reply{Verdict: verdictRefused, Why: err.Error()})
	}
	o.Wait = min(max(o.Wait, 0), maxWait)
	// Two streams would write the same hosts. The mark is set before Consider:
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
	err = r.take(ctx, c, o)
	if err != nil && ctx.Err() == nil { // else the next start sweeps
		err = errors.Join(err, r.unstage(o.Subnet))
	}
	return err
}

// take receives a subnet and makes it ours.
func (r *Receiver) take(ctx context.Context, c *wire.Conn, o Offer) error {
	if err := r.stage(o); err != nil {
		return err
	}
	if err := c.Send(reply{Verdict: verdictOK}); err != nil {
		return err
	}
	in := newIntake(r, o)
	for {
		var part chunk
		if err := c.Recv(&part); err != nil {
			return err
		}
		if part.End {
			break
		}
		if err := in.take(part); err != nil {
			return err
		}
	}
	hosts, err := in.finish()
	if err != nil {
		return err
	}
	var cm commit
	if err := exchange(c, in.got, &cm); err != nil {
		return err
	}
	l, err := r.Heir.Adopt(ctx, c.Peer(), o, cm.Grant, hosts)
	if err != nil {
		return err
	}
	return c.Send(done{Lease: l})
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
