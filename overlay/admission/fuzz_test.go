package admission

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

// What other peers send never admits the peer, whatever is changed in it, and is within bounds.
func FuzzMessages(f *testing.F) {
	key, founder := overlaytest.Identity(1)
	_, p := overlaytest.Identity(2)
	_, stranger := overlaytest.Identity(3)
	rules := Rules{Network: "n", Mode: Invite, Founders: []peer.ID{founder}}
	m, err := rules.admit(key, p, time.Unix(1_800_000_000, 0))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := NewInvitation(key, Invitation{Network: "n", Uses: 3, Peer: p,
		Expires: time.Unix(1_800_000_000, 0)})
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range []any{shown{Membership: m}, shown{Refused: "no"}, ask{Invitation: sealed},
		answer{Profile: []byte("x"), Membership: m, Peers: []string{"/ip4/192.0.2.1/tcp/1"}}} {
		b, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var s shown
		if wire.Unmarshal(b, &s) == nil && rules.Check(stranger, s.Membership) == nil {
			t.Errorf("%x admits a stranger", b)
		}
		var a answer
		if wire.Unmarshal(b, &a) == nil {
			if got, err := a.check(); err == nil && len(got.Peers) > MaxPeers {
				t.Errorf("%x has %d peers", b, len(got.Peers))
			}
		}
		if v, err := OpenInvitation(b); err == nil && (v.Uses < 1 || v.Uses > MaxUses) {
			t.Errorf("%x permits %d uses", b, v.Uses)
		}
	})
}
