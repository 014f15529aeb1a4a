package forward

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// state is what is known of a foreign host.
type state uint8

const (
	unresolved state = iota
	working          // a goroutine asks or moves
	foreign
	nursery
)

// entry is one host. Its URLs are in the store; count follows what the store
// holds, and may be ahead of it, never behind.
type entry struct {
	slot   // in book.names while unresolved
	name   string
	count  int
	oldest time.Time
	state  state
	res    Resolution
	fails  int        // what went wrong in a row
	misses int        // look-ups of the name that failed in a row
	astray bool       // its home is not where it was looked for
	found  netip.Addr // where a finder takes it to be ours
	news   uint64     // calls of add
	moved  []netip.Prefix
	lot    *lot          // that holds it, while foreign or nursery with URLs
	elem   *list.Element // in the lot, or in book.idle
	idle   time.Time     // since when it has no URL
}

// lot is the hosts, with URLs, of one owner or of one unowned subnet.
type lot struct {
	slot
	line   *timeline[*lot] // that it is in
	owner  peer.ID
	subnet netip.Prefix // when owner is ""
	hosts  *list.List   // of *entry; those served last at the end
	count  int
	since  time.Time // when its oldest URL came, or earlier
	ready  time.Time // since when it has a batch full; zero if it has not
}

// rest is how an owner failed.
type rest struct {
	until time.Time
	fails int
}
