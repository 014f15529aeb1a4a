package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/discovery/mdns"

	"peerd/internal/backoff"
)

const (
	// mdnsRetryMin and mdnsRetryMax bound the pause after multicast failed; it may work
	// later, for example when a cable is plugged in.
	mdnsRetryMin = 5 * time.Second
	mdnsRetryMax = 5 * time.Minute
	// mdnsRestartAfter is how often the service is restarted while no member is
	// connected: it only uses the network interfaces that existed when it started.
	mdnsRestartAfter = 2 * time.Minute
)

// runMDNS announces this peer on the local network and connects to the peers of the same
// network that it finds there (RFC 6762), until ctx ends.
func (n *Net) runMDNS(ctx context.Context) error {
	for pause := mdnsRetryMin; ctx.Err() == nil; {
		err := n.mdnsSession(ctx)
		if err == nil {
			pause = mdnsRetryMin
			continue
		}
		if pause == mdnsRetryMin {
			n.log.Warn("failed to start mDNS; will retry", "err", err)
		}
		_ = backoff.Sleep(ctx, backoff.Jitter(pause))
		pause = min(2*pause, mdnsRetryMax)
	}
	return nil
}

// mdnsSession announces and listens until ctx ends, or no member is connected at a
// restart. The error says that multicast is not available. The name of the service is
// a digest of the network's, because a DNS label has at most 63 bytes.
func (n *Net) mdnsSession(ctx context.Context) error {
	found := make(chan peer.AddrInfo, 16)
	sum := sha256.Sum256([]byte(n.Names.Network()))
	s := mdns.NewMdnsService(n.Host, fmt.Sprintf("_peerd-%x._udp", sum[:8]), notifee(found))
	defer s.Close()
	if err := s.Start(); err != nil {
		return err
	}
	look := time.NewTicker(mdnsRestartAfter)
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
			n.gate.allowFound(info.Addrs)
			dial, cancel := context.WithTimeout(ctx, 10*time.Second)
			if err := n.connect(dial, info); err != nil {
				n.log.Debug("failed to reach peer on the local network",
					"peer", info.ID, "err", err)
			}
			cancel()
		}
	}
}

// notifee passes on the peers that mDNS finds. A peer that is found while the channel is
// full is dropped; it will be found again.
type notifee chan peer.AddrInfo

func (c notifee) HandlePeerFound(info peer.AddrInfo) {
	select {
	case c <- info:
	default:
	}
}
