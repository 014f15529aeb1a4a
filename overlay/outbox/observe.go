package outbox

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Batch describes a batch that was sent or received.
type Batch struct {
	Peer                  peer.ID // the other one
	Sent                  bool    // by this peer
	Hosts, URLs, Accepted int
	Took                  time.Duration // until the receipt was there, or ready
	Err                   error         // why a batch was not acknowledged
}

// An Observer is a Node that is told of each batch. ObserveBatch must not block, and may be called
// concurrently.
type Observer interface{ ObserveBatch(Batch) }

// tell tells the node of a batch that began to be sent, or had been received, at a time.
func tell(to Node, p peer.ID, sent bool, b batch, r receipt, began time.Time, err error) {
	o, ok := to.(Observer)
	if !ok {
		return
	}
	is := Batch{Peer: p, Sent: sent, Hosts: len(b.Groups), Took: time.Since(began), Err: err}
	for i, g := range b.Groups {
		is.URLs += len(g.URLs)
		if err == nil && r.Results[i] == accepted {
			is.Accepted += len(g.URLs)
		}
	}
	o.ObserveBatch(is)
}
