package owner

import (
	"net/netip"

	"peerd/overlay/carry"
	"peerd/overlay/homing"
	"peerd/store"
)

// Hosts that move are package homing's. Here is what it is told of our subnets, and
// what it does for others through the Manager.

// watchHosts makes the Manager's homing.Watch.
func (m *Manager) watchHosts() (err error) {
	m.homes, err = homing.New(homing.Config{
		Self: m.cfg.Self, DB: m.cfg.DB, Subnets: ownSubnets{m}, Homes: m.cfg.Homes, Leases: m.cfg.Leases, Look: m.cfg.Look,
		Allowed: m.cfg.Allowed, Carrier: m.cfg.Carrier, Route: m.cfg.Route, Pace: m.cfg.Homing, Tick: m.cfg.Tick, Logger: m.log,
	})
	return err
}

// Doubt is told that the server of a host of ours does not answer: it may be
// elsewhere now.
func (m *Manager) Doubt(host string) { m.homes.Doubt(host) }

// Hosts returns what takes in the hosts that others bring.
func (m *Manager) Hosts() carry.Heir { return m.homes.Heir() }

// ownSubnets are a Manager's, as homing.Subnets.
type ownSubnets struct{ *Manager }

func (o ownSubnets) Lease(p netip.Prefix) (sealed []byte, ours bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s := o.subnets[p]; s != nil {
		return s.sealed, true
	}
	return nil, false
}

func (o ownSubnets) Enter(p netip.Prefix) (leave func(), ok bool) {
	o.mu.Lock()
	s := o.subnets[p]
	o.mu.Unlock()
	if s == nil || !o.enter(s) {
		return nil, false
	}
	return s.adding.Done, true
}

func (o ownSubnets) PutAside(h store.Host) error { return o.putAside(h) }
