package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"syscall"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/crawl/fetch"
	"peerd/crawl/network"
	"peerd/crawl/resolve"
	"peerd/overlay/peers"
	nets "peerd/overlay/prefix"
	"peerd/store"
)

const (
	// networkCheckEvery is how often an offline peer checks its network.
	networkCheckEvery = 2 * time.Second
	// maxCheckedPeers is the number of other peers that are asked in one check.
	maxCheckedPeers = 3
	// forgiveMargin is how long before the first failure of an outage failures are forgiven, too:
	// requests in progress may have ended with an answer that had arrived before.
	forgiveMargin = 30 * time.Second
)

// openNetwork builds the network monitor. In an emulation it asks web servers only, and notices
// when other peers are heard: there is neither a gateway nor DNS.
func (n *Node) openNetwork() (err error) {
	c := network.Config{
		Connect: n.connectServer, Node: networkNode{n},
		Every: n.opts.scaled(networkCheckEvery), Logger: n.log,
	}
	if n.opts.Emulation == nil {
		c.Probes = []network.Probe{
			network.Gateway(n.connectTCP), network.NameServers(n.askNameServers),
			network.Peers(n.connectTCP, n.checkedPeers),
		}
	}
	n.network, err = network.New(c)
	return err
}

// networkNode is the network.Node of a Node.
type networkNode struct{ *Node }

// Waiting leaves out pages that other peers fetch for this one: their answers do not come here.
func (n networkNode) Waiting() bool {
	return n.opts.Emulation == nil && n.fetcher.Active() > 0
}

// MayFetch leaves out the servers of other peers' subnets, which this peer knows if it has fetched
// pages for the owners. Without the quorum lease, its own may be another peer's by now.
func (n networkNode) MayFetch(addr netip.Addr) bool {
	return n.manager.MayFetch(store.SubnetOf(addr))
}

// Reserve takes the clocks of the frontier, so that a check is as polite as a request, or at least
// requests wait for it.
func (n networkNode) Reserve(addr netip.Addr, always bool) (end func(sent bool), ok bool) {
	r, err := n.frontier.ReserveAddr(context.Background(), addr, time.Now())
	switch {
	case err != nil && always:
		r = n.frontier.TakeAddr(addr)
	case err != nil:
		return nil, false
	}
	return func(sent bool) {
		if sent {
			r.Release(0, 0)
		} else {
			r.Cancel()
		}
	}, true
}

// Changed continues at once what waited for the network.
func (n networkNode) Changed(now, before network.State) {
	if now.Status == network.Offline {
		return
	}
	n.fetcher.ForgetAddrs()
	n.net.Reconnect()
	n.outbox.RetryNow()
	if err := n.crawler.Forgive(before.Since.Add(-forgiveMargin)); err != nil {
		n.log.Error("failed to forgive failures of the outage", "err", err)
	}
	n.webConns.closeAll()
}

// connectServer connects to a web server as the fetcher does, through its proxy if there is one.
func (n *Node) connectServer(ctx context.Context, addr netip.AddrPort) error {
	_, _, err := n.fetcher.Connect(ctx, store.URL(fmt.Sprintf("http://%s/", addr)), addr.Addr())
	if errors.Is(err, fetch.ErrProxy) {
		return fetch.ErrProxy // whatever it wraps is no answer of the server
	}
	return err
}

// askNameServers returns what the answer to a query for a name that does not exist shows.
func (n *Node) askNameServers(ctx context.Context, name string) network.Evidence {
	_, err := n.nameClient.Lookup(ctx, name)
	return nameEvidence(err)
}

func nameEvidence(err error) network.Evidence {
	failed, ok := errors.AsType[*resolve.Error](err)
	switch {
	case err == nil:
		return network.RemoteAnswer
	case errors.Is(err, syscall.ECONNREFUSED):
		return network.NotAsked // there is no name server
	case !ok:
		return network.NoAnswer
	}
	switch failed.Reason {
	case resolve.ReasonNXDomain, resolve.ReasonNoAddress:
		return network.RemoteAnswer
	case resolve.ReasonServFail, resolve.ReasonRefused, resolve.ReasonMalformed:
		return network.LocalAnswer
	}
	return network.NoAnswer
}

// connectTCP connects to a gateway or to another peer.
func (n *Node) connectTCP(ctx context.Context, addr netip.AddrPort) error {
	c, err := n.dialControl(ctx, "tcp", addr.String())
	if err != nil {
		return err
	}
	return c.Close()
}

// checkedPeers returns addresses of some other peers that are not on this machine.
func (n *Node) checkedPeers() []netip.AddrPort {
	here := localAddrs()
	var all []netip.AddrPort
	add := func(a ma.Multiaddr) {
		tcp, err := manet.ToNetAddr(a)
		if err != nil {
			return
		}
		if t, ok := tcp.(*net.TCPAddr); ok {
			if addr := t.AddrPort().Addr().Unmap(); !isHere(addr, here) {
				all = append(all, netip.AddrPortFrom(addr, t.AddrPort().Port()))
			}
		}
	}
	for _, b := range n.peers.Directory().All() {
		for _, text := range b.Addrs {
			if a, err := ma.NewMultiaddr(text); err == nil {
				add(a)
			}
		}
	}
	for _, b := range n.net.Bootstrap() {
		if a, err := ma.NewMultiaddr(b.Addr); err == nil {
			add(withoutPeer(a))
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(len(all), maxCheckedPeers)]
}

// withoutPeer returns a without its /p2p part.
func withoutPeer(a ma.Multiaddr) ma.Multiaddr {
	rest, _ := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_P2P })
	return rest
}

// Heard returns when a peer on another machine was last heard. In an emulation all peers are on one
// machine, and count.
func (n networkNode) Heard() (last time.Time) {
	here := localAddrs()
	if n.opts.Emulation != nil {
		here = nil
	}
	for _, b := range n.peers.Directory().All() {
		if at := n.lastHeard(b.Peer); at.After(last) && !runsHere(b, here) {
			last = at
		}
	}
	return last
}

// isHere reports whether addr is one of this machine; here nil: none is.
func isHere(addr netip.Addr, here map[netip.Addr]bool) bool {
	return here != nil && (here[addr] || addr.IsLoopback())
}

// runsHere reports whether all addresses of a peer are of this machine.
func runsHere(b peers.Beacon, here map[netip.Addr]bool) bool {
	for _, text := range b.Addrs {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue
		}
		if addr, ok := nets.Of(a); ok && !isHere(addr, here) {
			return false
		}
	}
	return here != nil
}

// localAddrs returns the addresses of this machine.
func localAddrs() map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return all
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all[p.Addr().Unmap()] = true
		}
	}
	return all
}

// lookup is a lookup of names that reports its failures to the network monitor.
func (n *Node) lookup(
	look func(ctx context.Context, host string) ([]netip.Addr, error),
) func(ctx context.Context, host string) ([]netip.Addr, error) {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		addrs, err := look(ctx, host)
		if errors.Is(err, resolve.ErrTemporary) {
			n.network.Failed(netip.Addr{}, err)
		}
		return addrs, err
	}
}
