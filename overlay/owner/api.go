package owner

import (
	"peerd/overlay/handover"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/outbox"
	"peerd/overlay/replica"
	"peerd/store"
)

// What follows are the parts of a Manager that other packages use; of those that are embedded, the
// exported methods are.

// Placement decides which peer fetches; for the crawler.
func (m *Manager) Placement() *Placement { return m.placement }

// Resolver finds the owners of hosts; for package outbox.
func (m *Manager) Resolver() outbox.Resolver { return m.resolver }

// Successor takes subnets that other peers hand over; for package handover.
func (m *Manager) Successor() handover.Successor { return m.arrivals }

// CopyPolicy says which copies are kept here; for package replica.
func (m *Manager) CopyPolicy() replica.Policy { return m.policy }

// HostReceiver returns the receiver of hosts that other peers transfer.
func (m *Manager) HostReceiver() hosttransfer.Receiver { return m.hosts.hostMoves.Receiver() }

// MovingHosts returns how many hosts are on their way to or from here: their URLs are in no
// frontier.
func (m *Manager) MovingHosts() int { return m.hosts.hostMoves.Moving() }

// SuspectHost reports that the server of a host of ours does not answer: it may have
// moved, or this peer cannot reach it. If this peer denies it, its subnet goes to another peer
// without a wait.
func (m *Manager) SuspectHost(host string, why store.Outcome) { m.hosts.suspectHost(host, why) }
