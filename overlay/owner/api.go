package owner

import (
	"context"
	"net/netip"
	"time"

	"peerd/overlay/handover"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
	"peerd/store"
)

// What follows are the parts of a Manager that other packages use.

// Placement decides which peer fetches; for the crawler.
func (m *Manager) Placement() *Placement { return m.placement }

// Resolver finds the owners of hosts; for package outbox.
func (m *Manager) Resolver() outbox.Resolver { return m.resolver }

// Successor takes subnets that other peers hand over; for package handover.
func (m *Manager) Successor() handover.Successor { return m.receiver }

// CopyPolicy says which copies are kept here; for package replica.
func (m *Manager) CopyPolicy() replica.Policy { return m.policy }

// HostReceiver returns the receiver of hosts that other peers transfer.
func (m *Manager) HostReceiver() hosttransfer.Receiver { return m.hosts.hostMoves.Receiver() }

// SilentSubnets returns the number of subnets of silent owners of which this peer has a complete
// copy, unless another peer is known to have continued them. This peer, or another one with a copy,
// takes them over in time.
func (m *Manager) SilentSubnets() int { return m.failover.SilentSubnets(time.Now()) }

// Revoked takes in that witnesses have voted subnets of ours away: given to
// witness.Config.Revoked. When it returns nil nothing is begun there any more,
// and that is on the disk, unless the other witnesses are enough to prevent a takeover.
// The lease is renewed at once, which shows a better one; where there is none when the
// candidate's time is over, we go on.
func (m *Manager) Revoked(ctx context.Context, rs []witness.Revocation) error {
	return m.leases.Revoked(ctx, rs)
}

// SuspectTakeover reports that our subnets may have been taken over without our
// knowledge; package witness calls it. Each lease is renewed before anything is fetched
// there again.
func (m *Manager) SuspectTakeover() { m.leases.SuspectTakeover() }

// ObserveLease processes a lease that another peer announced. If it beats ours, ours is
// renewed at once, which shows whether it stands.
func (m *Manager) ObserveLease(l lease.Lease) { m.leases.ObserveLease(l) }

// Inactive reports whether this peer is known not to have acted as an owner in a time: it did not
// run, or had no quorum lease. Its subnets may have been taken over then without its consent.
func (m *Manager) Inactive(from, to time.Time) bool { return m.presence.Inactive(from, to) }

// AwakeSince returns the time since which this peer has run without a sleep of its machine. In a
// sleep it hears no peer, so it knows of no silence from before.
func (m *Manager) AwakeSince(now time.Time) time.Time { return m.presence.AwakeSince(now) }

// Capacity returns what this peer can still take, in units of NominalPages: 1 without a
// limit, 0 if it takes nothing. It uses memory only.
func (m *Manager) Capacity() float64 { return m.balance.Capacity() }

// Predict returns how long this peer should take for a page of that many bytes, over an open
// connection, by the proxy coordinate of the subnet. It returns false if the subnet is not ours or
// has no proxy coordinate.
func (m *Manager) Predict(p netip.Prefix, bytes int64) (time.Duration, bool) {
	return m.placement.Predict(p, bytes)
}

// Safe returns when what was committed before the call for the given subnets would
// survive this peer, because their replicas have it on disk. It returns the subnets for
// which that is not so within Times.Flush: the sender has to keep what it sent for them
// and retry. It waits for a replica that does not answer until it is dropped (Times.Lost), and for
// the first replica, or the next one, as long as Times.First. After that, or if there is no peer to
// be a replica, this peer's disk has to suffice. A subnet that is no longer ours is not safe.
func (m *Manager) Safe(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix) {
	return m.replicas.Safe(ctx, subnets)
}

// Drain hands all subnets over: those of which a replica has a copy to it, others to the
// nearest peer that accepts them. From its call until the process ends this peer accepts
// nothing. Run must be running. It returns when no subnet is left, or at the end of ctx
// with an error that wraps ErrLeft.
func (m *Manager) Drain(ctx context.Context) error { return m.departures.Drain(ctx) }

// SuspectHost reports that the server of a host of ours does not answer: it may have
// moved, or this peer cannot reach it. If this peer denies it, its subnet goes to another peer
// without a wait.
func (m *Manager) SuspectHost(host string, why store.Outcome) { m.hosts.SuspectHost(host, why) }

// MovingHosts returns how many hosts are on their way to or from here: their URLs are in no
// frontier.
func (m *Manager) MovingHosts() int { return m.hosts.MovingHosts() }
