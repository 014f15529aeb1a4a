package owner

import (
	"time"

	"peerd/overlay/witness"
)

// Times configures replicas and takeovers: DefaultTimes, but for tests.
type Times struct {
	// Silence is the time without a sign of an owner after which its replicas request votes.
	// 20 s, which is also what its witnesses promise it.
	Silence time.Duration
	// Spread is added to Silence, a different part of it by each replica, so that they do
	// not ask at once. 2 s.
	Spread time.Duration
	// Orphan is the time without a sign of an owner after which no replica of it is expected
	// to take over. Copies that were never complete are then salvaged, and a quarter of it
	// later peers with URLs for a subnet recreate it, if it was its owner's for too short a
	// time to have a replica. 2 min.
	Orphan time.Duration
	// Recreate is the same for a subnet that had replicas: then peers with an old copy may
	// take over, and a quarter of it later peers without a copy may recreate it. Replicas on
	// the other side of a partition disappear together and come back with what they have
	// fetched; so this is longer than most partitions. 15 min.
	Recreate time.Duration
	// Lost is the time for which a replica may be unreachable or not acknowledge before
	// another one replaces it. 25 s, so that the other one has a copy within 30 s.
	Lost time.Duration
	// First is the time for which URLs for a subnet of ours wait for its first replica, or for
	// the next one after the last was dropped. 1 min: if the chosen peer is lost, it is found out
	// (Lost) and another one gets a copy.
	First time.Duration
	// Flush is the time for which Safe waits for the replicas. 2 s.
	Flush time.Duration
	// Hold is how long a heartbeat that the witnesses have acknowledged counts, from when it was
	// sent: witness.Config.Hold, 15 s.
	Hold time.Duration
	// QuorumMargin is the remaining time of the quorum lease at which the witnesses have not
	// been heard for longer than their heartbeats take: from then on a page is fetched only
	// if the replicas have the pages before it. 8.5 s of the 15 s that Hold
	// gives every 5 s; it must be well below what Hold leaves between two heartbeats.
	QuorumMargin time.Duration
	// Unreachable is the time without an answer of any server of a subnet after which other
	// peers are asked to connect to one. 3 min.
	Unreachable time.Duration
	// Revive is how long after a witness has voted a subnet of ours away the DHT is
	// asked once more, and the subnet is ours again if it is not another's.
	// witness.ReviveAfter.
	Revive time.Duration
}

// DefaultTimes returns what fits the Internet.
func DefaultTimes() Times {
	return Times{
		Silence: 20 * time.Second, Spread: 2 * time.Second, Orphan: 2 * time.Minute,
		Recreate: 15 * time.Minute, Lost: 25 * time.Second, First: time.Minute,
		Flush: 2 * time.Second, Hold: 15 * time.Second, QuorumMargin: 8500 * time.Millisecond,
		Revive: witness.ReviveAfter, Unreachable: 3 * time.Minute,
	}
}
