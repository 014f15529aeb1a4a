package outbox

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// state is the state of a host that is not in the frontier.
type state uint8

const (
	unresolved state = iota
	working          // being resolved, or its URLs are being moved
	foreign
	unclaimed
)

// entry is a host with pending URLs. count follows the store and is never too low.
type entry struct {
	slot       // in hostTable.names while unresolved
	name       string
	count      int
	received   int // of count, those that other peers sent; never too low
	oldest     time.Time
	state      state
	res        Resolution
	fails      int // successive failures
	lookups    nameState
	rereadHome bool          // the home record is to be read again before the next lookup
	foundAddr  netip.Addr    // address in one of our subnets at which a finder has seen it
	adds       uint64        // number of calls of add
	began      uint64        // the last of hostTable.changed when its lookup began
	queue      *hostQueue    // that contains it, while foreign or unclaimed and with URLs
	elem       *list.Element // in queue, or in hostTable.idle
	idleSince  time.Time     // since when it has no URLs
}

// hostQueue contains the hosts with URLs of one owner or of one unowned subnet.
type hostQueue struct {
	slot
	timeline  *timeline[*hostQueue] // that contains it
	owner     peer.ID
	subnet    netip.Prefix // used if owner is ""
	hosts     *list.List   // of *entry; those served last are at the end
	count     int
	oldest    time.Time // when its oldest URL was added, or earlier
	fullSince time.Time // since when it has a full batch; zero if it has not
}

// retry is the state after failures of an owner or a claim.
type retry struct {
	until time.Time
	fails int
}
