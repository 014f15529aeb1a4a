package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"
)

// runMDNS announces this peer on the local network and connects to whoever of
// the same network it hears there (RFC 6762), until ctx ends. The service is
// named by a digest of the network, because a DNS label has 63 bytes.
func (n *Net) runMDNS(ctx context.Context) error {
	found := make(chan peer.AddrInfo, 16)
	sum := sha256.Sum256([]byte(n.Names.Network()))
	s := mdns.NewMdnsService(n.Host, fmt.Sprintf("_peerd-%x._udp", sum[:8]), notifee(found))
	if err := s.Start(); err != nil { // no multicast here: the other ways in remain
		n.log.Warn("peers on the local network cannot be found", "err", err)
		<-ctx.Done()
		return nil
	}
	defer s.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
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
