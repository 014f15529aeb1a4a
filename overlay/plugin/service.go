package plugin

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
	"golang.org/x/time/rate"

	"peerd/overlay/wire"
)

const (
	// MaxPublishers is how many publishers a peer trusts.
	MaxPublishers = 16
	// AtOnce is how many peers are asked in each round.
	AtOnce = 16

	maxRequest = 4 << 10       // bytes
	maxReply   = MaxModule * 2 // bytes, after decompression
	maxReason  = 256           // bytes of a refusal that are quoted in an error
)

// requestRate limits the requests of each peer. Modules are sent to all peers together one in each
// moduleEvery, and MaxPlugins at once.
var requestRate = wire.Rate{PerSecond: 1, Burst: 2 * MaxPlugins, TotalFactor: 16}

const moduleEvery = 5 * time.Second

// request asks for the manifests of publishers or, with a digest, for a module.
type request struct {
	Publishers []string `cbor:"1,keyasint,omitempty"`
	Digest     []byte   `cbor:"2,keyasint,omitempty"`
}

type reply struct {
	Refused   string   `cbor:"1,keyasint,omitempty"`
	Manifests [][]byte `cbor:"2,keyasint,omitempty"` // signed
	Module    []byte   `cbor:"3,keyasint,omitempty"`
}

// Service keeps a Folder as new as those of other peers. Its fields are set before Serve and Run.
type Service struct {
	Host     host.Host
	Protocol protocol.ID
	Folder   Folder
	// Peers returns the other peers.
	Peers wire.Peers
	// Every is the time between two rounds, and Timeout bounds each request.
	Every, Timeout time.Duration
	Logger         *slog.Logger

	requests wire.Limiter
	modules  *rate.Limiter
}

// Serve answers other peers until the returned wire.Server is closed.
func (s *Service) Serve() *wire.Server {
	s.modules = rate.NewLimiter(rate.Every(moduleEvery), MaxPlugins)
	return wire.Serve(s.Host, s.Protocol, wire.Limits{MaxMsg: maxRequest, Timeout: s.Timeout},
		s.Logger, s.handle)
}

func (s *Service) handle(_ context.Context, c *wire.Conn) error {
	var q request
	if err := c.Recv(&q); err != nil {
		return err
	}
	busy := reply{Refused: "busy"}
	if !s.requests.Allow(requestRate, c.Peer(), time.Now()) {
		return c.SendZ(busy)
	}
	if len(s.Folder.Publishers) == 0 {
		return c.SendZ(reply{})
	}
	all, err := s.Folder.List()
	if err != nil {
		s.Logger.Debug("failed to read some plug-ins", "err", err)
	}
	var a reply
	for _, e := range all {
		switch {
		case !e.Trusted || e.Off != "": // others need not have the same trouble
		case q.Digest != nil && string(q.Digest) == string(e.Digest):
			if !s.modules.Allow() {
				return c.SendZ(busy)
			}
			a.Module, err = s.Folder.Module(e)
			if err != nil {
				return err
			}
			return c.SendZ(a)
		case q.Digest == nil && slices.Contains(q.Publishers, e.Publisher.String()) &&
			len(a.Manifests) < MaxPlugins:
			a.Manifests = append(a.Manifests, e.sealed)
		}
	}
	return c.SendZ(a)
}

// Run asks other peers, in turn, until ctx ends. It does nothing if no publisher is trusted.
func (s *Service) Run(ctx context.Context) error {
	if len(s.Folder.Publishers) == 0 {
		return nil
	}
	asked := map[peer.ID]bool{} // in this turn
	for {
		n := 0
		for _, p := range s.Peers.Infos() {
			if asked[p.ID] || n == AtOnce {
				continue
			}
			n++
			asked[p.ID] = true
			if err := s.update(ctx, p); err != nil && ctx.Err() == nil {
				s.Logger.Debug("failed to ask peer for plug-ins", "peer", p.ID, "err", err)
			}
		}
		if n < AtOnce {
			clear(asked)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.Every):
		}
	}
}

// update fetches what a peer has that is newer. It ends at the first fault of the peer.
func (s *Service) update(ctx context.Context, p peer.AddrInfo) error {
	var q request
	for _, id := range s.Folder.Publishers {
		q.Publishers = append(q.Publishers, id.String())
	}
	a, err := s.ask(ctx, p, q)
	if err != nil {
		return err
	}
	if len(a.Manifests) > MaxPlugins {
		return fmt.Errorf("%w: %d manifests", ErrPlugin, len(a.Manifests))
	}
	var refused error // why some are not wanted
	for _, sealed := range a.Manifests {
		m, err := open(sealed)
		if err != nil {
			return err
		}
		old, err := s.Folder.kept(&m)
		if err != nil || m.Version <= old.Version {
			refused = errors.Join(refused, err)
			continue
		}
		got, err := s.ask(ctx, p, request{Digest: m.Digest})
		if err != nil {
			return err
		}
		if _, err := s.Folder.Put(pack(sealed, got.Module)); err != nil {
			return err
		}
		s.Logger.Info("received plug-in", "plugin", m.Name, "version", m.Version, "publisher",
			m.Publisher, "from", p.ID)
	}
	return refused
}

// ask sends one request.
func (s *Service) ask(ctx context.Context, p peer.AddrInfo, q request) (a reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	if err := s.Host.Connect(ctx, p); err != nil {
		return a, err
	}
	c, err := wire.Dial(ctx, s.Host, p.ID, wire.Limits{MaxMsg: maxReply, Timeout: s.Timeout},
		s.Protocol)
	if err != nil {
		return a, err
	}
	defer func() { c.End(err) }()
	if err := errors.Join(c.Send(q), c.RecvZ(&a)); err != nil {
		return a, err
	}
	if a.Refused != "" {
		return a, fmt.Errorf("plugin: refused: %.*q", maxReason, a.Refused)
	}
	return a, nil
}
