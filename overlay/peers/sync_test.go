package peers

import (
	"errors"
	"fmt"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Each peer belongs to exactly one part, and the parts have similar sizes.
func TestPartsCoverAllPeers(t *testing.T) {
	const n, parts = 600, 6
	sizes := make([]int, parts)
	for i := range n {
		in := 0
		for part := range parts {
			if (syncRequest{Part: part, Parts: parts}).covers(peer.ID(fmt.Sprint("peer ", i))) {
				sizes[part]++
				in++
			}
		}
		if in != 1 {
			t.Fatalf("peer %d is in %d parts, want 1", i, in)
		}
	}
	for part, size := range sizes {
		if size < n/parts/2 || size > n/parts*2 {
			t.Errorf("part %d has %d of %d peers, want about a sixth", part, size, n)
		}
	}
}

func TestSyncRequestParts(t *testing.T) {
	for _, w := range []syncRequest{{Parts: -1}, {Parts: maxParts + 1}, {Part: 1},
		{Part: 2, Parts: 2}, {Part: -1, Parts: 2}} {
		if err := w.validate(); !errors.Is(err, ErrBeacon) {
			t.Errorf("validate of %+v: %v, want ErrBeacon", w, err)
		}
	}
	if err := (syncRequest{Part: 1, Parts: 2}).validate(); err != nil {
		t.Error(err)
	}
}
