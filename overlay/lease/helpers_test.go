package lease

import (
	"math/rand"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
)

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

// folk are the same peers in every run.
var folk = func() []someone {
	var ps []someone
	src := rand.New(rand.NewSource(1))
	for range 8 {
		key, _, err := crypto.GenerateEd25519Key(src)
		if err != nil {
			panic(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			panic(err)
		}
		ps = append(ps, someone{id, key})
	}
	return ps
}()

var (
	alice, bob, carol = folk[0], folk[1], folk[2]

	subnet4 = netip.MustParsePrefix("203.0.113.0/24")
	subnet6 = netip.MustParsePrefix("2001:db8:7::/48")
	noon    = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
)

// first returns an epoch-1 lease of p, issued at noon for ten minutes.
func first(p someone) Lease {
	return Lease{Subnet: subnet4, Owner: p.id, Epoch: 1, Issued: noon, Expires: noon.Add(10 * time.Minute)}
}

// granted returns a lease of to at epoch with from's grant in it.
func granted(t testing.TB, from, to someone, epoch uint64) Lease {
	t.Helper()
	l := first(to)
	l.Epoch = epoch
	l.Grant = grant(t, from, to, epoch)
	return l
}

func grant(t testing.TB, from, to someone, epoch uint64) []byte {
	t.Helper()
	b, err := SealGrant(Grant{Subnet: subnet4, From: from.id, To: to.id, Epoch: epoch, Issued: noon}, from.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func seal(t testing.TB, l Lease, by someone) []byte {
	t.Helper()
	b, err := SealLease(l, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// forge signs any body, checked or not.
func forge(t testing.TB, b leaseBody, by someone) []byte {
	t.Helper()
	sealed, err := leaseKind.Seal(b, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func somewhere() *coords.Proxy {
	return &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{12, -7, 3}, Height: 2, Error: 0.2},
		Delay: 40, Scale: 2, PerKB: 0.1, Error: 0.1, Samples: 8,
	}
}

// at returns a clock that stands still.
func at(t time.Time) func() time.Time { return func() time.Time { return t } }
