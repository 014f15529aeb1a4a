package overlaytest

import (
	"math/rand"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
	"peerd/store/kv"
)

// Identity returns a key and its peer ID, the same for the same seed.
func Identity(seed int64) (crypto.PrivKey, peer.ID) {
	return draw(rand.New(rand.NewSource(seed)))
}

// Identities returns n peers, the same in every run: the results of as for their IDs and keys.
// The first has the identity of the seed.
func Identities[P any](seed int64, n int, as func(peer.ID, crypto.PrivKey) P) []P {
	src := rand.New(rand.NewSource(seed))
	peers := make([]P, n)
	for i := range peers {
		key, id := draw(src)
		peers[i] = as(id, key)
	}
	return peers
}

// Peer is the identity of a peer.
type Peer struct {
	ID  peer.ID
	Key crypto.PrivKey
}

// Peers returns n peers, the same in every run. The first has the identity of the seed.
func Peers(seed int64, n int) []Peer {
	return Identities(seed, n, func(id peer.ID, key crypto.PrivKey) Peer { return Peer{id, key} })
}

// draw returns the next identity of src. It panics on errors, which do not occur with the
// sources of this package.
func draw(src *rand.Rand) (crypto.PrivKey, peer.ID) {
	key, _, err := crypto.GenerateEd25519Key(src)
	if err != nil {
		panic(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		panic(err)
	}
	return key, id
}

// Introduce adds the addresses of all other hosts to each host's peerstore, for an hour. It
// does not connect them.
func Introduce(hosts ...host.Host) {
	for _, h := range hosts {
		for _, other := range hosts {
			if other != h {
				h.Peerstore().AddAddrs(other.ID(), other.Addrs(), time.Hour)
			}
		}
	}
}

// Store opens the store in dir, or one in memory if dir is empty, with small caches. It is
// closed when the test ends; the test may close it earlier.
func Store(t testing.TB, dir string) *store.DB {
	t.Helper()
	return openStore(t, dir, store.Options{InMemory: dir == ""})
}

// StoreOnDisk is Store on an in-memory disk that can be full and can lose unsynced writes.
func StoreOnDisk(t testing.TB, disk *kv.Disk) *store.DB {
	t.Helper()
	return openStore(t, "", store.Options{Disk: disk})
}

func openStore(t testing.TB, dir string, o store.Options) *store.DB {
	t.Helper()
	o.MemTable, o.IndexCache = 8<<20, 4<<20
	db, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
