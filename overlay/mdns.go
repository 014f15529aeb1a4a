package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

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

// runMDNS announces this peer on the local network and has j connect to the peers of the same
// network that it finds there (RFC 6762), until ctx ends.
func (n *Net) runMDNS(ctx context.Context, j *joiner) error {
	for pause := mdnsRetryMin; ctx.Err() == nil; {
		err := n.mdnsSession(ctx, j)
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
func (n *Net) mdnsSession(ctx context.Context, j *joiner) error {
	sum := sha256.Sum256([]byte(n.Names.Network()))
	s := mdns.NewMdnsService(n.Host, fmt.Sprintf("_peerd-%x._udp", sum[:8]), j)
	defer s.Close()
	if err := s.Start(); err != nil {
		return err
	}
	for backoff.Sleep(ctx, mdnsRestartAfter) == nil && !n.alone() {
	}
	return nil
}
