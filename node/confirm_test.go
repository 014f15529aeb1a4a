package node

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/test"

	"peerd/overlay/owner"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

// TestConfirmStrangers verifies that a peer is asked about a host only if this one met it long ago,
// soon after its start, or in an earlier run.
func TestConfirmStrangers(t *testing.T) {
	n := newNode(t, options(t))
	c := newConfirmer(n)
	who, err := test.RandPeerID()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct {
		name string
		ran  time.Duration // until it met the peer
		met  bool
		want owner.Word
	}{
		{"not met", 0, false, owner.Strange},
		{"met later", 2 * peers.JoiningFor, true, owner.Strange},
		{"met at the start", peers.JoiningFor / 2, true, owner.Silent}, // it cannot be reached
	} {
		if s.met {
			wire.Meet(n.net.Host.Peerstore(), who)
		}
		n.started = time.Now().Add(-s.ran)
		if got := c.Confirm(t.Context(), who, "http://a.test/"); got != s.want {
			t.Errorf("%s: Confirm() = %v, want %v", s.name, got, s.want)
		}
	}
	before, err := test.RandPeerID()
	if err != nil {
		t.Fatal(err)
	}
	n.acquainted[before] = true
	if got := c.Confirm(t.Context(), before, "http://a.test/"); got != owner.Silent {
		t.Errorf("met in an earlier run: Confirm() = %v, want %v", got, owner.Silent)
	}
}
