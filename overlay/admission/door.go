package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay/wire"
)

const (
	// MaxProfile bounds a profile that is sent. Bytes.
	MaxProfile = 256 << 10
	// MaxPeers bounds the addresses that a new peer is told.
	MaxPeers = 8
	maxAddr  = 512 // bytes of a multiaddr with peer ID, as text
	// maxReason bounds a reason that is quoted. Characters.
	maxReason   = 300
	joinTimeout = 10 * time.Second
	maxAsk      = MaxInvitation + 64
	maxAnswer   = MaxProfile + MaxPeers*(maxAddr+8) + maxShown
)

// joinRate is how often a peer may ask to join, and how often all peers together.
var joinRate = wire.Rate{PerSecond: 1, Burst: 8, TotalFactor: 8}

// ask is the request of a peer that joins.
type ask struct {
	Invitation []byte `cbor:"1,keyasint,omitempty"` // sealed
}

// answer is the response.
type answer struct {
	Refused    string     `cbor:"1,keyasint,omitempty"` // why; all else is then empty
	Profile    []byte     `cbor:"2,keyasint,omitempty"`
	Membership Membership `cbor:"3,keyasint,omitempty"`
	Peers      []string   `cbor:"4,keyasint,omitempty"` // multiaddrs with peer ID
}

// An Answer is what a peer needs to belong to a network.
type Answer struct {
	// Profile is the text of the network's profile. The caller compares it with the digest that
	// it was given.
	Profile []byte
	// Membership is that of this peer; nil in an open network.
	Membership Membership
	// Peers are multiaddrs, with peer ID, of peers to join.
	Peers []string
}

// A Door answers peers that join.
type Door struct {
	// Host serves peers that are not admitted.
	Host     host.Host
	Protocol protocol.ID
	Rules    Rules
	// Profile is the text of the profile, of at most MaxProfile bytes.
	Profile []byte
	// Issuer redeems invitations. Not used in an open network.
	Issuer *Issuer
	// Peers returns multiaddrs, with peer ID, of peers to join, of which MaxPeers are told.
	Peers interface{ JoinAddrs() []string }
	// Logger may be nil.
	Logger *slog.Logger

	limiter wire.Limiter
}

// Serve answers until the returned Server is closed.
func (d *Door) Serve() *wire.Server {
	return wire.Serve(d.Host, d.Protocol, wire.Limits{MaxMsg: maxAsk, Timeout: joinTimeout},
		d.Logger, d.handle)
}

func (d *Door) handle(_ context.Context, c *wire.Conn) error {
	if !d.limiter.Allow(joinRate, c.Peer(), time.Now()) {
		return errors.New("admission: too many requests to join")
	}
	var in ask
	if err := c.Recv(&in); err != nil {
		return err
	}
	out, err := d.answer(c.Peer(), in)
	if err != nil && d.Logger != nil {
		d.Logger.Info("refused peer that wants to join", "peer", c.Peer(), "err", err)
	} else if err == nil && len(out.Membership) > 0 && d.Logger != nil {
		d.Logger.Info("admitted peer", "peer", c.Peer())
	}
	return c.Send(out)
}

// answer returns the response to p. A stranger learns nothing but why it is refused.
func (d *Door) answer(p peer.ID, in ask) (answer, error) {
	out := answer{Profile: d.Profile}
	if !d.Rules.Open() && d.Rules.Check(p, nil) != nil { // not a founder
		var err error
		if len(in.Invitation) == 0 {
			err = fmt.Errorf("%w, and has no invitation", ErrNoMember)
		} else {
			out.Membership, err = d.Issuer.Redeem(p, in.Invitation)
		}
		if err != nil {
			return answer{Refused: refusal(err)}, err
		}
	}
	all := d.Peers.JoinAddrs()
	out.Peers = all[:min(len(all), MaxPeers)]
	return out, nil
}

// refusal returns what a stranger is told of an error: of one of this peer's own, such as of its
// files, nothing.
func refusal(err error) string {
	for _, known := range []error{
		ErrNoMember, ErrInvitation, ErrExpired, ErrUsedUp, ErrMayNotInvite,
	} {
		if errors.Is(err, known) {
			return err.Error()
		}
	}
	return "this peer cannot redeem invitations now; its log says why"
}

// ErrBrokenOff is returned if a peer was connected, but its answer did not arrive.
var ErrBrokenOff = errors.New("admission: the conversation broke off")

// Ask asks the peer p to let this one join. With a nil invitation it only asks for the profile.
// The error matches ErrRefused if p refused. If it matches ErrBrokenOff, p may answer another time.
func Ask(
	ctx context.Context, h host.Host, p peer.AddrInfo, proto protocol.ID, invitation []byte,
) (Answer, error) {
	if err := h.Connect(ctx, p); err != nil {
		return Answer{}, fmt.Errorf("connect to %s: %w", p.ID, err)
	}
	c, err := wire.Dial(ctx, h, p.ID, wire.Limits{MaxMsg: maxAnswer, Timeout: joinTimeout}, proto)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: ask %s: %w", ErrBrokenOff, p.ID, err)
	}
	defer c.Reset()
	var out answer
	err = errors.Join(c.Send(ask{Invitation: invitation}), c.CloseWrite())
	if err == nil {
		err = c.Recv(&out)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%w: ask %s: %w", ErrBrokenOff, p.ID, err)
	}
	return out.check()
}

// check returns a response if it could come from an honest peer.
func (a answer) check() (Answer, error) {
	switch {
	case a.Refused != "":
		return Answer{}, fmt.Errorf("%w: %.*q", ErrRefused, maxReason, a.Refused)
	case len(a.Profile) == 0 || len(a.Profile) > MaxProfile:
		return Answer{}, fmt.Errorf("admission: profile of %d bytes", len(a.Profile))
	case len(a.Peers) > MaxPeers:
		return Answer{}, fmt.Errorf("admission: %d addresses, at most %d", len(a.Peers), MaxPeers)
	}
	peers := slices.DeleteFunc(slices.Clone(a.Peers), func(text string) bool {
		if len(text) > maxAddr {
			return true
		}
		m, err := ma.NewMultiaddr(text)
		if err != nil {
			return true
		}
		info, err := peer.AddrInfoFromP2pAddr(m)
		return err != nil || len(info.Addrs) == 0
	})
	return Answer{Profile: a.Profile, Membership: a.Membership, Peers: peers}, nil
}
