package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl"
	"peerd/crawl/deny"
	"peerd/crawl/resolve"
	"peerd/crawl/scope"
	"peerd/node/sitepage"
	"peerd/overlay/optout"
	"peerd/store"
)

// repeatOptOuts is the time between two messages about the same opt-out.
const repeatOptOuts = 5 * time.Minute

// optOutPrefix begins the keys of opt-outs in the store. A value is the time until which one is
// obeyed.
const optOutPrefix = "optout "

// openOptOuts reads the opt-outs that this peer obeys.
func (n *Node) openOptOuts() (*deny.OptOuts, error) {
	var saved []deny.OptOut
	err := n.db.EachData(optOutPrefix, func(origin string, val []byte) error {
		saved = append(saved, deny.OptOut{Origin: origin})
		return saved[len(saved)-1].Until.UnmarshalBinary(val)
	})
	if err != nil {
		return nil, fmt.Errorf("read opt-outs: %w", err)
	}
	return deny.NewOptOuts(saved, func(o deny.OptOut) error {
		return n.db.Update(func(tx *store.Tx) error {
			if o.Until.IsZero() {
				return tx.DeleteData(optOutPrefix + o.Origin)
			}
			val, err := o.Until.MarshalBinary()
			if err != nil {
				return err
			}
			return tx.PutData(optOutPrefix+o.Origin, val)
		})
	}), nil
}

// openOptOutGossip opens the exchange of opt-outs with other peers, and the page for the owners of
// web sites.
func (n *Node) openOptOutGossip() (err error) {
	n.optOuts, err = optout.New(optout.Config{
		Self: n.net.Self(), PubSub: n.net.PubSub, Topic: n.net.Names.OptOuts(),
		Sites: optOutSites{n.deny.OptOuts, n.scope},
		Every: n.opts.scaled(repeatOptOuts), Logger: n.log,
	})
	if addr := n.opts.Config.Page.Listen; err == nil && addr != "" && !n.opts.Alone {
		if n.sitePage, err = sitepage.Listen(addr, visited{n}, n.log); err == nil {
			n.log.Info("opened page for owners of web sites", "url", n.sitePage.URL())
			n.parts = append(n.parts, n.sitePage.Run)
		}
	}
	return err
}

// optOutSites is the optout.Sites of a Node.
type optOutSites struct {
	*deny.OptOuts // Claim
	scope         *scope.Scope
}

func (s optOutSites) Valid(origin string) error {
	if o, err := deny.ParseOrigin(origin); err != nil || o != origin {
		return deny.ErrOrigin
	}
	return s.scope.Allows(store.URL(origin+"/"), 0)
}

func (s optOutSites) Obeyed() (all []string) {
	for _, o := range s.All() {
		all = append(all, o.Origin)
	}
	return all
}

// OptOut reads the file of the opt-out of an origin, obeys it, and tells the other peers.
func (n *Node) OptOut(ctx context.Context, origin string) (obeyed bool, err error) {
	known := n.deny.OptOuts.Known(origin)
	obeyed, err = n.crawler.ReadOptOut(ctx, origin)
	if err != nil || !obeyed && !known {
		return obeyed, err
	}
	if err := n.optOuts.Publish(ctx, origin); err != nil {
		n.log.Warn("failed to tell other peers of opt-out", "origin", origin, "err", err)
	}
	return obeyed, nil
}

// visited is the sitepage.Peer of a Node.
type visited struct{ n *Node }

// pageTimeout bounds the look-ups for a visitor.
const pageTimeout = 10 * time.Second

func (v visited) About() sitepage.About {
	return sitepage.About{Peer: v.n.net.Self().String(), Network: v.n.opts.Profile.Name,
		UserAgent: v.n.opts.UserAgent, Contact: v.n.opts.Config.Contact, MinDelay: v.n.gap()}
}

func (v visited) Site(ctx context.Context, host string) (s sitepage.Site, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	subnet, _, err := v.n.subnetFor(ctx, host)
	if errors.Is(err, resolve.ErrNotFound) {
		return s, fmt.Errorf("%w: %w %s", sitepage.ErrRefused, resolve.ErrNotFound, host)
	} else if err != nil {
		return s, err
	}
	s = sitepage.Site{Host: host, Subnet: subnet.String(), Owner: v.n.locate(subnet).owner}
	if s.Owner == "" { // a failure means that none is known
		if l, _, err := v.n.leases.Lookup(ctx, subnet); err == nil {
			s.Owner = l.Owner.String()
		}
	}
	s.Self = s.Owner == v.n.net.Self().String()
	if id, err := peer.Decode(s.Owner); err == nil && !s.Self {
		if b, ok := v.n.peers.Directory().Get(id); ok {
			for _, a := range b.Info().Addrs {
				s.Addrs = append(s.Addrs, a.String())
			}
		}
	}
	s.OptedOutUntil = v.n.deny.OptOuts.Until(host)
	return s, nil
}

func (v visited) OptOut(ctx context.Context, origin string) (bool, error) {
	obeyed, err := v.n.OptOut(ctx, origin)
	if errors.Is(err, crawl.ErrInvalidRequest) {
		v.n.log.Debug("refused to read an opt-out", "origin", origin, "err", err)
		err = fmt.Errorf("%w: this peer may not request %s, or finds no address of it",
			sitepage.ErrRefused, origin)
	}
	return obeyed, err
}

func (v visited) StopAddr(addr netip.Addr) error {
	if err := v.n.guard.Check(addr); err != nil {
		return fmt.Errorf("%w: this peer requests nothing at %v", sitepage.ErrRefused, addr)
	}
	if !v.n.deny.OptOuts.Stop(addr, time.Now()) {
		return errors.New("too many addresses are stopped")
	}
	v.n.log.Warn("stopped requests to an address that asked for it", "addr", addr,
		"for", deny.MaxStop)
	return nil
}
