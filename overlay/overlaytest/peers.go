package overlaytest

import (
	"math/rand"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
	"peerd/store/kv"
)

// Identity makes a key and its ID, the same for the same seed.
func Identity(seed int64) (crypto.PrivKey, peer.ID) {
	return draw(rand.New(rand.NewSource(seed)))
}

// Folk makes n peers, the same in every run: each is what as makes of its ID and
// key. The first has the identity of the seed.
func Folk[P any](seed int64, n int, as func(peer.ID, crypto.PrivKey) P) []P {
	src := rand.New(rand.NewSource(seed))
	folk := make([]P, n)
	for i := range folk {
		key, id := draw(src)
		folk[i] = as(id, key)
	}
	return folk
}

// draw makes the source's next identity. It panics if there is none, which no
// source of this package does.
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

// Host starts a host that listens on a free port of loopback, has no limits, and
// closes when the test ends; the test may close it before.
func Host(t testing.TB, more ...libp2p.Option) host.Host {
	t.Helper()
	h, err := libp2p.New(append([]libp2p.Option{
		libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics(), libp2p.DisableRelay(),
		libp2p.ResourceManager(&network.NullResourceManager{}),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

// Introduce tells each host the addresses of the others for an hour. It connects
// none of them.
func Introduce(hosts ...host.Host) {
	for _, h := range hosts {
		for _, other := range hosts {
			if other != h {
				h.Peerstore().AddAddrs(other.ID(), other.Addrs(), time.Hour)
			}
		}
	}
}

// Store opens the store in dir, or one in memory if dir is empty, with small
// caches. It closes when the test ends; the test may close it before.
func Store(t testing.TB, dir string) *store.DB {
	t.Helper()
	return openStore(t, dir, store.Options{InMemory: dir == ""})
}

// StoreOn is Store on a disk in memory that can be filled, and lose what was not synced.
func StoreOn(t testing.TB, disk *kv.Disk) *store.DB {
	t.Helper()
	return openStore(t, "", store.Options{Disk: disk})
}

func openStore(t testing.TB, dir string, o store.Options) *store.DB {
	t.Helper()
	o.MemTable, o.BlockCache, o.IndexCache = 8<<20, 8<<20, 4<<20
	db, err := store.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
