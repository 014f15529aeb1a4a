package overlay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/sec"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"peerd/internal/backoff"
	"peerd/overlay/admission"
)

// AskToJoin asks the bootstrap peers of cfg, one after the other, to let this one join the
// network, and returns the first answer. It uses a host of its own, which listens on no address.
// With a nil invitation it only asks for the profile. The error has that of every peer; it
// matches admission.ErrRefused if one of them refused.
func AskToJoin(
	ctx context.Context, cfg Config, invitation []byte,
) (answer admission.Answer, err error) {
	names, err := NewNames(cfg.Network)
	if err != nil {
		return answer, err
	}
	c := DefaultConfig()
	c.Key, c.Network, c.Bootstrap, c.UserAgent = cfg.Key, cfg.Network, cfg.Bootstrap, cfg.UserAgent
	c.Listen = nil
	if err := c.Validate(); err != nil {
		return answer, err
	}
	h, err := newHost(c, &traffic{}, newGater(c))
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	var errs []error
	for _, p := range cfg.Bootstrap {
		if p.ID == h.ID() {
			errs = append(errs, fmt.Errorf("overlay: %s is this peer itself", p.ID))
			continue
		}
		answer, err := askPatiently(ctx, h, p, names.Join(), invitation)
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return answer, errors.Join(errs...)
}

// askTries is how often a peer is asked that accepts connections and does not answer.
const askTries = 4

// askPatiently asks a peer again if a connection was made and no answer arrived: the peer may be
// starting, or busy.
func askPatiently(
	ctx context.Context, h host.Host, p peer.AddrInfo, proto protocol.ID, invitation []byte,
) (answer admission.Answer, err error) {
	for n := range askTries {
		if s, ok := h.Network().(*swarm.Swarm); ok {
			s.Backoff().Clear(p.ID) // the failed dial before would forbid this one for 5 s
		}
		try, cancel := context.WithTimeout(ctx, 4*dialTimeout)
		answer, err = admission.Ask(try, h, p, proto, invitation)
		cancel()
		if !brokenOff(err) || n == askTries-1 ||
			backoff.Sleep(ctx, backoff.Double(time.Second/2, time.Minute, n)) != nil {
			break
		}
	}
	return answer, err
}

// brokenOff reports whether a connection was made and another attempt may have an answer.
func brokenOff(err error) bool {
	var impostor sec.ErrPeerIDMismatch
	return errors.Is(err, admission.ErrBrokenOff) ||
		errors.Is(err, errHandshake) && !errors.As(err, &impostor)
}
