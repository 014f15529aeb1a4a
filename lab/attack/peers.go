package attack

import (
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Attacks on what peers know of each other.

func peerAttacks() []Attack {
	return []Attack{{
		Name: "made-up-peers", Unit: "connections to the third party in 15 s", Limit: 80,
		Slow: true,
		Does: "relays 1,500 beacons of peers that do not exist, all with an address of a third " +
			"party",
		By: "an eighth of the directory for what one teller says, and 3 dials each; for public " +
			"addresses also a budget: 32 dials of one at once, then one each 4 s",
		run: makeUpPeers,
	}}
}

// counter is a TCP service that counts connections and closes them.
type counter struct {
	addr netip.AddrPort
	n    atomic.Int64
}

func (e *arena) counter(at string) (*counter, error) {
	ln, err := net.Listen("tcp", at+":0")
	if err != nil {
		return nil, err
	}
	c := &counter{addr: ln.Addr().(*net.TCPAddr).AddrPort()}
	e.closers = append(e.closers, ln.Close)
	e.running.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.n.Add(1)
			_ = conn.Close()
		}
	})
	return c, nil
}

// madeUp returns beacons of peers that do not exist, as they are relayed, with an address.
func (s *stranger) madeUp(at string) (some []any, err error) {
	for range 64 {
		who, err := newIdentity()
		if err != nil {
			return nil, err
		}
		beacon, err := s.beacon(who, at)
		if err != nil {
			return nil, err
		}
		some = append(some, fields{1: beacon, 2: 100})
	}
	return some, nil
}

func makeUpPeers(e *arena) (outcome, error) {
	third, err := e.counter("127.34.1.1")
	if err != nil {
		return outcome{}, err
	}
	vs, err := e.peers(2)
	if err != nil {
		return outcome{}, err
	}
	s, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	at := fmt.Sprintf("/ip4/%v/tcp/%d", third.addr.Addr(), third.addr.Port())
	sent := 0
	for sent < 1500 {
		some, err := s.madeUp(at)
		if err != nil {
			return outcome{}, err
		}
		if err := s.introduce(vs[0], some); err != nil {
			return outcome{}, fmt.Errorf("attack: after %d beacons: %w", sent, err)
		}
		sent += len(some)
	}
	err = e.sleep(15 * time.Second)
	return outcome{float64(third.n.Load()), fmt.Sprintf("%d beacons; the directory has %d peers, "+
		"one of them honest", sent, vs[0].Status().Directory)}, err
}
