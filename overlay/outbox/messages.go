package outbox

import (
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// batch contains URLs for one owner. It is compressed on the wire.
type batch struct {
	Groups []group `cbor:"1,keyasint"`

	from int // store.Pending.Finder of the URLs; set by the receiver
}

// group contains the URLs of one host. Subnet is the host's home as far as the sender knows,
// and Addr an address of the host that the sender has seen.
type group struct {
	Host   string       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	Addr   netip.Addr   `cbor:"3,keyasint,omitempty"`
	URLs   []item       `cbor:"4,keyasint"`
}

type item struct {
	URL   store.URL `cbor:"1,keyasint"`
	Depth int       `cbor:"2,keyasint,omitempty"`
	From  string    `cbor:"3,keyasint,omitempty"` // host of the linking page
	// Kind may have KindSitemap, KindChanged and KindPinged. Revisits are scheduled by the owner
	// only and are never sent.
	Kind store.Kind `cbor:"4,keyasint,omitempty"`
	Hops int        `cbor:"5,keyasint,omitempty"` // number of redirects that led here
	// Relayed says that the sender has it of another peer, and did not find it itself.
	Relayed bool `cbor:"6,keyasint,omitempty"`
}

// receipt is the reply to a batch. It has one result per group, in the same order.
type receipt struct {
	Results []result `cbor:"1,keyasint"`
	// of subnets that the receiver does not own, if known
	Leases [][]byte `cbor:"2,keyasint,omitempty"`
}

type result uint8

const (
	accepted   result = iota + 1
	notOwner          // look up the owner again
	retryLater        // the subnet is being handed over, or the URLs are not safe yet: send again
	// the receiver owns the subnet, but it is not the host's home: read the home record again
	wrongHome
)

// Bounds of a batch.
const (
	maxBatchURLs     = 4096
	maxReceiptLeases = 256
	maxLeaseBytes    = 512 << 10 // of all leases in a receipt, with which it must not be too large
	maxURL           = 2048      // bytes; canonical URLs are not longer
	maxHost          = 255       // bytes of a host name
	maxHops          = 255
	maxDepth         = 1<<16 - 1
)

// Message limits. That of a batch applies to its decoded size.
var (
	batchLimits   = wire.Limits{MaxMsg: 12 << 20, Timeout: 30 * time.Second}
	receiptLimits = wire.Limits{MaxMsg: 1 << 20, Timeout: 30 * time.Second}
)
