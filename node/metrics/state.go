package metrics

import (
	"time"

	"peerd/crawl/frontier"
	"peerd/overlay"
	"peerd/overlay/outbox"
	"peerd/overlay/owner"
	"peerd/overlay/ownermap"
	"peerd/store"
	"peerd/store/warc"
)

// Peer is the peer that is measured.
type Peer interface {
	// Measure returns the current state. It must be safe for concurrent use, must not wait for
	// the network, and must not iterate over the store.
	Measure() State
}

// State is the state of a peer at one moment.
type State struct {
	// Counters, Dropped and Marked are counted since the start of the process, except Failed and
	// RobotsDenied of GivenUp, which are current numbers.
	Counters store.Counters
	GivenUp  GivenUp
	Dropped  map[string]int64 // URLs, by reason
	Marked   map[string]int64 // pages, by property

	Frontier       frontier.Stats
	Pauses         frontier.Pauses
	ServersReady   int // may be asked now
	ServersWaiting int // must be left alone for some time
	WorkerWait     time.Duration
	Pending        outbox.Stats
	Blocked        map[string]bool // reasons for which nothing is fetched, true if they apply

	Subnets  owner.Counts
	Owner    owner.Stats
	OwnerMap ownermap.Stats
	Traffic  map[string]overlay.Bytes // by protocol, in few words

	Month *Month // nil: there is no monthly volume

	PeersKnown     int // without this one
	PeersConnected int
	Coordinate     Coordinate

	DiskFree, DiskMinFree int64    // bytes
	Archive               *Archive // nil: there is none
}

// Month is the use of the monthly volume. Bytes.
type Month struct{ Bytes, Volume int64 }

// GivenUp are numbers of URLs that are not tried any more.
type GivenUp struct{ Failed, RobotsDenied int64 }

// Coordinate describes the network coordinate of a peer, in milliseconds.
type Coordinate struct {
	Error  float64 // relative, 0 to 1
	Height float64
	Moved  float64 // path since the start of the process
	// Ratios are the predicted round-trip times to other peers divided by the measured ones, in
	// ascending order.
	Ratios []float64
}

// Archive describes the archive of a peer.
type Archive struct {
	warc.Stats
	Quota int64 // bytes; 0: no limit
}
