package peers

import (
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/prefix"
	"peerd/overlay/wire"
)

// addrTTL is how long the peerstore keeps the addresses in a beacon. Each new beacon renews it. By
// it the addresses of beacons are told from others, so nothing else may have the same.
const addrTTL = 10*time.Minute + time.Second

// intake adds beacons to the directory, with the limits on who brings them.
type intake struct {
	*env
	self    *self
	states  *peerStates
	clocks  *clocks
	relayed wire.Limiter // limits what other peers relay
}

// addOwnBeacon adds the beacon with which p introduces itself, over a connection of its own. An
// error means that p misbehaves, or that its clock is wrong.
func (in *intake) addOwnBeacon(p peer.ID, raw []byte) error {
	claim, err := peek(raw)
	if err == nil && claim.Peer != p {
		err = fmt.Errorf("%w: of %s", ErrBeacon, claim.Peer)
	}
	if err == nil {
		var b Beacon
		if b, err = in.dir.Put(raw); err == nil {
			in.addAddrs(b)
		}
		if err == nil || errors.Is(err, ErrTime) || errors.Is(err, ErrKnown) {
			in.clocks.see(claim, in.cfg.Clock.Now())
		}
	}
	if err != nil && !errors.Is(err, ErrKnown) && !errors.Is(err, ErrFull) {
		return fmt.Errorf("peers: beacon of %s: %w", p, err)
	}
	wire.Meet(in.cfg.Host.Peerstore(), p)
	return nil
}

// addBeacon adds a beacon that the peer from has relayed.
func (in *intake) addBeacon(from peer.ID, a RelayedBeacon) error {
	switch err := in.dir.checkNew(a.Sealed); {
	case errors.Is(err, errOwn):
		return in.returned(a.Sealed)
	case err == nil && !in.relayed.Allow(relayRate, from, time.Now()):
		return nil // it will be relayed again
	}
	b, err := in.dir.putHearsay(a.Sealed, a.age(), in.account(from))
	if err == nil {
		in.addAddrs(b)
	}
	return err
}

// account returns what tells how much the word of a peer counts.
func (in *intake) account(from peer.ID) hearsay {
	_, measured := in.states.rtt(from)
	conns := in.cfg.Host.Network().ConnsToPeer(from)
	told := hearsay{by: from, unsure: !measured || len(conns) == 0}
	for _, c := range conns {
		if addr, ok := prefix.Public(c.RemoteMultiaddr()); ok {
			told.nears = append(told.nears, prefix.Near(addr))
		}
	}
	if b, ok := in.dir.Get(from); ok {
		nears, _ := networks(b)
		told.nears = append(told.nears, nears...)
	}
	return told
}

// relayRate limits the signatures that are checked for a peer that relays beacons. The burst
// covers the first exchange with a peer that knows a large network.
var relayRate = wire.Rate{PerSecond: 16, Burst: 256, TotalFactor: 16}

// addAddrs puts the addresses of a new beacon into the peerstore, in the place of those of older
// ones: a peer could otherwise have any number of them dialed.
func (in *intake) addAddrs(b Beacon) {
	known := in.cfg.Host.Peerstore()
	known.UpdateAddrs(b.Peer, addrTTL, 0)
	known.AddAddrs(b.Peer, b.Info().Addrs, addrTTL)
	if !wire.Connected(in.cfg.Host, b.Peer) {
		in.wake()
	}
}

// Verify opens a relayed beacon without adding it to the directory. Errors wrap ErrBeacon, or
// ErrTime if the maker has been silent for too long.
func (in *intake) Verify(a RelayedBeacon) (Beacon, error) {
	b, err := Open(a.Sealed, in.cfg.Topic, in.dims)
	if err != nil {
		return Beacon{}, err
	}
	if a.age() > in.dir.cfg.ttl(b) {
		return Beacon{}, fmt.Errorf("%w: heard %v ago", ErrTime, a.age())
	}
	return b, nil
}

// Learn adds a relayed beacon to the directory and pins it there, even if the directory is
// partial and the peer is far away. It returns the newest known beacon of the peer. Errors wrap
// ErrBeacon, ErrFull or ErrTime; the last also if the peer is and stays suspect.
func (in *intake) Learn(a RelayedBeacon) (Beacon, error) {
	b, err := in.Verify(a)
	if err != nil {
		return Beacon{}, err
	}
	// While many beacons arrive, the entry may be evicted before it is pinned.
	told := hearsay{by: in.cfg.Host.ID(), unsure: true}
	for range maxLearnTries {
		if _, err = in.dir.putHearsay(a.Sealed, a.age(), told); err == nil {
			in.addAddrs(b)
		}
		if in.dir.Suspected(b.Peer) {
			return Beacon{}, fmt.Errorf("%w: %s is suspect", ErrTime, b.Peer)
		}
		if known, ok := in.dir.Get(b.Peer); ok && in.dir.Pin(b.Peer) {
			return known, nil
		}
		if err != nil && !errors.Is(err, ErrKnown) {
			return Beacon{}, err
		}
	}
	return Beacon{}, fmt.Errorf("%w: %s is not present", ErrTime, b.Peer) // or it is this peer
}

// maxLearnTries is how often Learn tries to add and pin a beacon.
const maxLearnTries = 3
