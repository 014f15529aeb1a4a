package forward

import (
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// batch is a parcel of URLs for one owner, compressed on the wire.
type batch struct {
	Groups []group `cbor:"1,keyasint"`
}

// group is the URLs of one host. Subnet is the one that the finder takes for
// its home, Addr the finder's address of it.
type group struct {
	Host   string       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	Addr   netip.Addr   `cbor:"3,keyasint,omitempty"`
	URLs   []item       `cbor:"4,keyasint"`
}

type item struct {
	URL   store.URL `cbor:"1,keyasint"`
	Depth int       `cbor:"2,keyasint,omitempty"`
	From  string    `cbor:"3,keyasint,omitempty"` // host of the page that links to it
	// Kind may be that of a sitemap; a revisit is nobody's but the owner's.
	Kind store.Kind `cbor:"4,keyasint,omitempty"`
	Hops int        `cbor:"5,keyasint,omitempty"` // redirects in a row that led here
}

// receipt answers a batch, a verdict a group, in order.
type receipt struct {
	Verdicts []verdict `cbor:"1,keyasint"`
	Leases   [][]byte  `cbor:"2,keyasint,omitempty"` // of the subnets that are not ours, where known
}

type verdict uint8

const (
	accepted verdict = iota + 1
	notOwner         // ask for the owner again
	later            // the subnet is moving, or the URLs are not safe yet: come again
	astray           // the subnet is the receiver's, but not the host's home: read that again
)

// Limits of a batch.
const (
	maxBatchURLs     = 4096
	maxReceiptLeases = 256
	maxURL           = 2048 // bytes; canonical URLs are no longer
	maxHost          = 255  // bytes of a host name
	maxHops          = 255
	maxDepth         = 1<<16 - 1
)

// batchLimits are those of a batch, whose size is its decoded one, and
// receiptLimits those of the answer.
var (
	batchLimits   = wire.Limits{MaxMsg: 12 << 20, Timeout: 30 * time.Second}
	receiptLimits = wire.Limits{MaxMsg: 1 << 20, Timeout: 30 * time.Second}
)
