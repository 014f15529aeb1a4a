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

// met makes n peers, each with two addresses.
func met(t *testing.T, n int) []peer.AddrInfo {
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
		for _, form := range []string{"/ip4/192.0.2.%d/tcp/4101", "/ip4/192.0.2.%d/udp/4101/quic-v1"} {
			info.Addrs = append(info.Addrs, ma.StringCast(fmt.Sprintf(form, i%256)))
		}
		all = append(all, info)
	}
	return all
}

// What was saved is found again, and who meets few after a restart does not
// forget the others.
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
	save := func(s *peerSaver, infos []peer.AddrInfo) {
		t.Helper()
		if err := s.SavePeers(infos); err != nil {
			t.Fatal(err)
		}
	}
	same := func(got, want []peer.AddrInfo) bool {
		return slices.EqualFunc(got, want, func(a, b peer.AddrInfo) bool {
			return a.ID == b.ID && slices.EqualFunc(a.Addrs, b.Addrs, ma.Multiaddr.Equal)
		})
	}

	if got := saved(); len(got) > 0 {
		t.Errorf("a new store knows %v", got)
	}
	all := met(t, maxSavedPeers)
	save(&peerSaver{db: db}, all)
	if got := saved(); !same(got, all) {
		t.Errorf("%d peers of %d came back", len(got), len(all))
	}

	again := &peerSaver{db: db}
	few := append(met(t, 1), all[7])
	save(again, few)
	want := append(slices.Clone(few), all[:7]...)
	want = append(want, all[8:len(all)-1]...) // the last has no room any more
	if got := saved(); !same(got, want) {
		t.Errorf("%d peers, the first %v; want %d, the first %v", len(got), got[0].ID, len(want), want[0].ID)
	}
	moved := peer.AddrInfo{ID: few[0].ID, Addrs: []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/tcp/9")}}
	save(again, []peer.AddrInfo{moved})
	if got := saved(); !same(got[:1], []peer.AddrInfo{moved}) || len(got) != maxSavedPeers {
		t.Errorf("a peer that has moved is found at %v", got[0].Addrs)
	}
}
