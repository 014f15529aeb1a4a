package node

import (
	"crypto/rand"
	"fmt"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/store"
)

// peersReady makes n peers, each with two addresses.
func newPeerInfos(t *testing.T, n int) []peer.AddrInfo {
	t.Helper()
	var all []peer.AddrInfo
	for i := range n {
		_, pub, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPublicKey(pub)
		if err != nil {
			t.Fatal(err)
		}
		info := peer.AddrInfo{ID: id}
		for _, form := range []string{"/ip4/192.0.2.%d/tcp/4101",
			"/ip4/192.0.2.%d/udp/4101/quic-v1"} {
			info.Addrs = append(info.Addrs, ma.StringCast(fmt.Sprintf(form, i%256)))
		}
		all = append(all, info)
	}
	return all
}

// Saved peers are read back. A peer that meets few others after a restart keeps the rest.
func TestSavedPeers(t *testing.T) {
	db, err := store.Open(t.TempDir(), store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	saved := func() []peer.AddrInfo {
		t.Helper()
		all, err := savedPeers(db)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	save := func(infos []peer.AddrInfo) {
		t.Helper()
		if err := (peerSaver{db}).SavePeers(infos); err != nil {
			t.Fatal(err)
		}
	}
	same := func(got, want []peer.AddrInfo) bool {
		return slices.EqualFunc(got, want, func(a, b peer.AddrInfo) bool {
			return a.ID == b.ID && slices.EqualFunc(a.Addrs, b.Addrs, ma.Multiaddr.Equal)
		})
	}

	if got := saved(); len(got) > 0 {
		t.Errorf("savedPeers() of a new store = %v", got)
	}
	all := newPeerInfos(t, maxSavedPeers)
	save(all)
	if got := saved(); !same(got, all) {
		t.Errorf("savedPeers() = %d peers, want the %d that were saved", len(got), len(all))
	}

	few := append(newPeerInfos(t, 1), all[7])
	save(few)
	want := append(slices.Clone(few), all[:7]...)
	want = append(want, all[8:len(all)-1]...) // the last one exceeds the limit
	if got := saved(); !same(got, want) {
		t.Errorf("savedPeers() = %d peers, the first %v, want %d, the first %v",
			len(got), got[0].ID, len(want), want[0].ID)
	}
	moved := peer.AddrInfo{ID: few[0].ID,
		Addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/9")}}
	save([]peer.AddrInfo{moved})
	if got := saved(); !same(got[:1], []peer.AddrInfo{moved}) || len(got) != maxSavedPeers {
		t.Errorf("addresses of a moved peer = %v, want only the new one", got[0].Addrs)
	}
}
