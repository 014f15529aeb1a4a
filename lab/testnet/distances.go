package testnet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
	"peerd/node"
)

// followEvery is how often a peer in a container asks for changes of the distances.
const followEvery = 500 * time.Millisecond

// Distances are the emulated distances between the containers of a network. The address of a
// container decides its place, so that all containers agree on the distances.
type Distances struct {
	Net  netip.Prefix `json:"net"`
	Seed uint64       `json:"seed"` // 0: there are no distances
}

// maxEnginePeers is the number of addresses that the engine assigns.
const maxEnginePeers = 256

// plan returns the places: one for each address that the engine assigns, in its order, and one for
// each site. Of 26 addresses in a row, each is in a city of its own.
func (d Distances) plan() wan.Plan {
	return wan.NewPlan(wan.NewWorld(wan.Cities(), d.Seed), maxEnginePeers, maxContainers, d.Seed)
}

// place returns the place of an address. Only peers and sites have one.
func (d Distances) place(a netip.Addr) (place int, ok bool) {
	if !a.Is4() || !d.Net.Contains(a) {
		return 0, false
	}
	b := a.As4()
	switch third := int(b[2]); {
	case third == 0:
		return int(b[3]), true
	case third <= maxContainers && a == siteAddr(d.Net, third-1):
		return maxEnginePeers + third - 1, true
	}
	return 0, false
}

// network returns the network of all containers.
func (d Distances) network() *wan.Network {
	n := wan.NewNetwork(d.plan().World)
	for i := range maxEnginePeers {
		n.Place(hostAddr(d.Net, 0, byte(i)), i)
	}
	for i := range maxContainers {
		n.Place(siteAddr(d.Net, i), maxEnginePeers+i)
	}
	return n
}

// A Change is how a container differs from what the seed decides.
type Change struct {
	Divisor float64       `json:"divisor,omitempty"` // of the bandwidth; 0 and 1: none
	Delay   time.Duration `json:"delay,omitempty"`   // added to every round trip
	// Part is the part of the network in which the container is; containers in different parts
	// are cut off from each other.
	Part int `json:"part,omitempty"`
	// Restarts is the number of times that the process was told to restart.
	Restarts int `json:"restarts,omitempty"`
}

// changed returns w with changes by address.
func (d Distances) changed(w *wan.World, changes map[netip.Addr]Change) *wan.World {
	for a, c := range changes {
		place, ok := d.place(a)
		if !ok {
			continue
		}
		if c.Divisor > 0 {
			w = w.Slowed(place, c.Divisor)
		}
		w = w.Loaded(place, c.Delay).Parted(place, c.Part)
	}
	return w
}

// Contained is a peer in a container with emulated distances to the others. The end that dials
// emulates a connection, so the sites need not do anything.
type Contained struct {
	d       Distances
	network *wan.Network
	own     atomic.Pointer[netip.Addr] // the last that was known
	log     *slog.Logger
	// restart replaces this process by a new one, as after a crash.
	restart func() error
}

// NewContained returns the peer in this container, and nil if s has no distances.
func NewContained(s emulate.Spec, log *slog.Logger) (*Contained, error) {
	d := Distances{Net: s.Net, Seed: s.Seed}
	if !d.Net.IsValid() || d.Seed == 0 {
		return nil, nil
	}
	if err := checkNet(d.Net); err != nil {
		return nil, err
	}
	return &Contained{d: d, network: d.network(), log: log, restart: restartProcess}, nil
}

func checkNet(network netip.Prefix) error {
	if !network.Addr().Is4() || network.Bits() != 16 {
		return fmt.Errorf("testnet: %s is no IPv4 /16", network)
	}
	return nil
}

// Emulation returns how the peer connects to others.
func (c *Contained) Emulation(scale float64) *node.Emulation {
	return &node.Emulation{
		DialWeb:   c.dial,
		DialPeer:  func(ma.Multiaddr) (tcp.ContextDialer, error) { return dialer(c.dial), nil },
		TimeScale: scale, OwnMachine: true,
	}
}

// dial connects as from the place of this container. Its address is another one after the
// container was disconnected from its network and connected again.
func (c *Contained) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if own, err := ownAddr(c.d.Net); err == nil {
		c.own.Store(&own)
	}
	from := 0
	if own := c.own.Load(); own != nil {
		from, _ = c.d.place(*own)
	}
	return c.network.Dialer(from, netip.Addr{})(ctx, network, addr)
}

// Follow applies the changes that the first site of the testnet knows until ctx ends.
func (c *Contained) Follow(ctx context.Context) { c.follow(ctx, controlAddr(c.d.Net)) }

func (c *Contained) follow(ctx context.Context, at netip.AddrPort) {
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	base := c.network.World()
	last := map[netip.Addr]Change{}
	var self netip.Addr // the address at which restarts were counted
	restarts := 0
	for {
		var s controlState
		if err := get(ctx, at, "/", &s); err != nil {
			c.log.Debug("failed to ask for changes of the distances", "err", err)
		} else {
			if !maps.Equal(s.Changes, last) {
				last = s.Changes
				c.network.Change(c.d.changed(base, last))
				c.log.Info("distances were changed", "containers", len(last))
			}
			own, err := ownAddr(c.d.Net)
			if err == nil && own == self && last[own].Restarts > restarts {
				c.log.Warn("was told to restart")
				if err := c.restart(); err != nil {
					c.log.Error("failed to restart", "err", err)
				}
			}
			self, restarts = own, last[own].Restarts
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
