package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay/wire"
	"peerd/store"
)

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
	have, err := r.Heir.Consider(from, o)
	switch {
	case err != nil:
		return c.Send(reply{Verdict: verdictRefused, Why: err.Error()})
	case have != nil:
		return c.Send(reply{Verdict: verdictDone, Lease: have})
	}
	if err := r.clear(o); err != nil {
		return err
	}
	if err := c.Send(reply{Verdict: verdictOK}); err != nil {
		return err
	}
	in := intake{r: r, o: o, counts: map[string]int64{}}
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
	if err := exchange(c, prepared{Hosts: len(hosts), Entries: in.entries}, &cm); err != nil {
		return err
	}
	l, err := r.Heir.Adopt(ctx, from, o, cm.Grant, hosts)
	if err != nil {
		return err
	}
	return c.Send(done{Lease: l})
}

// clear marks the subnet as staged and sweeps away what an earlier, broken
// handover may have left.
func (r *Receiver) clear(o Offer) error {
	var hosts []store.Host
	err := r.DB.Update(func(tx *store.Tx) (err error) {
		if hosts, err = tx.HostsOf(o.Subnet); err != nil {
			return err
		}
		return tx.PutSubnet(store.Subnet{Prefix: o.Subnet, Phase: store.PhaseStaged, Epoch: o.Epoch, Since: time.Now()})
	})
	for _, h := range hosts {
		if err == nil {
			err = r.DB.DropHost(h.Name)
		}
	}
	return err
}

// intake stores the chunks of one handover.
type intake struct {
	r       *Receiver
	o       Offer
	hosts   []store.Host
	counts  map[string]int64 // queued so far
	entries int64
}

func (in *intake) take(c chunk) error {
	if len(c.Entries) > maxChunkEntries || len(c.Seen) > maxChunkSeen || len(c.Robots) > maxRobots || len(in.hosts) > maxHosts {
		return errors.New("a chunk is over its limits")
	}
	if c.Record != nil {
		h := *c.Record
		if _, twice := in.counts[h.Name]; twice || h.Name != c.Host || h.Subnet != in.o.Subnet || store.SubnetOf(h.Addr) != in.o.Subnet {
			return fmt.Errorf("host %q does not belong here", c.Host)
		}
		h.NextAt = time.Time{} // a foreign clock: Offer.Wait stands for it
		in.counts[h.Name] = 0
		in.hosts = append(in.hosts, h)
	}
	if _, ok := in.counts[c.Host]; !ok {
		return fmt.Errorf("host %q without a record", c.Host)
	}
	for _, e := range c.Entries {
		if e.URL.Host() != c.Host {
			return fmt.Errorf("url %q is not of host %q", e.URL, c.Host)
		}
		if err := in.r.Check(e.URL); err != nil {
			return err
		}
	}
	in.counts[c.Host] += int64(len(c.Entries))
	in.entries += int64(len(c.Entries))
	return in.r.DB.Update(func(tx *store.Tx) error {
		for origin, v := range c.Robots {
			if store.URL(origin).Host() != c.Host {
				return fmt.Errorf("origin %q is not of host %q", origin, c.Host)
			}
			if err := tx.PutRobots(origin, v); err != nil {
				return err
			}
		}
		return tx.Import(c.Host, c.Entries, c.Seen)
	})
}

// finish writes the hosts' records, counted anew.
func (in *intake) finish() ([]store.Host, error) {
	for i := range in.hosts {
		in.hosts[i].Pending = in.counts[in.hosts[i].Name]
	}
	err := in.r.DB.Update(func(tx *store.Tx) error {
		for _, h := range in.hosts {
			tx.PutHost(h)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return in.hosts, in.r.DB.Sync()
}
