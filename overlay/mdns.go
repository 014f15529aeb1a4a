package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
)

const (
	// mdnsFirst and mdnsLast bound the pause after multicast was not to be had:
	// the cable may be plugged in later.
	mdnsFirst = 5 * time.Second
	mdnsLast  = 5 * time.Minute
	// mdnsAlone is after how long it begins anew if nobody is connected: it knows
	// the network interfaces that there were at the beginning only.
	mdnsAlone = 2 * time.Minute
)

// runMDNS announces this peer on the local network and connects to whoever of
// the same network it hears there (RFC 6762), until ctx ends.
func (n *Net) runMDNS(ctx context.Context) error {
	for pause := mdnsFirst; ctx.Err() == nil; {
		err := n.mdnsSession(ctx)
		if err == nil {
			pause = mdnsFirst
			continue
		}
		if pause == mdnsFirst {
			n.log.Warn("peers on the local network cannot be found; trying again", "err", err)
		}
		t := time.NewTimer(jitter(pause))
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
		pause = min(2*pause, mdnsLast)
	}
	return nil
}

// mdnsSession is runMDNS until ctx ends, or this peer has been alone for some
// time. The error says that there is no multicast. The service is named by a
// digest of the network, because a DNS label has 63 bytes.
func (n *Net) mdnsSession(ctx context.Context) error {
	found := make(chan peer.AddrInfo, 16)
	sum := sha256.Sum256([]byte(n.Names.Network()))
	s := mdns.NewMdnsService(n.Host, fmt.Sprintf("_peerd-%x._udp", sum[:8]), notifee(found))
	defer s.Close()
	if err := s.Start(); err != nil {
		return err
	}
	look := time.NewTicker(mdnsAlone)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if n.alone() {
				return nil
			}
		case info := <-found:
			if info.ID == n.Self() {
				continue
			}
			dial, cancel := context.WithTimeout(ctx, 10*time.Second)
			if err := n.connect(dial, info); err != nil {
				n.log.Debug("a peer on the local network was not reached", "peer", info.ID, "err", err)
			}
			cancel()
		}
	}
}

// notifee passes on what mDNS hears; what comes faster than it is dialled is
// dropped, and heard again.
type notifee chan peer.AddrInfo

func (c notifee) HandlePeerFound(info peer.AddrInfo) {
	select {
	case c <- info:
	default:
	}
}
