package lease

import (
	"cmp"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/internal/clock"
	"peerd/overlay/overlaytest"
)

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

// folk are the same peers in every run.
var folk = overlaytest.Identities(1, 8, func(id peer.ID, key crypto.PrivKey) someone {
	return someone{id, key}
})

var (
	alice, bob, carol = folk[0], folk[1], folk[2]

	subnet4 = netip.MustParsePrefix("203.0.113.0/24")
	subnet6 = netip.MustParsePrefix("2001:db8:7::/48")
	noon    = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
)

// first returns an epoch-1 lease of p, issued at noon for ten minutes.
func first(p someone) Lease {
	return Lease{Subnet: subnet4, Owner: p.id, Epoch: 1, Issued: noon,
		Expires: noon.Add(10 * time.Minute)}
}

// granted returns a lease of to at epoch with from's grant in it.
func granted(t testing.TB, from, to someone, epoch uint64) Lease {
	t.Helper()
	l := after(held(from, epoch-1), to)
	l.Grant = grant(t, from, to, epoch)
	return l
}

// held returns a lease of p at an epoch; above the first one after one of alice.
func held(p someone, epoch uint64) Lease {
	l := first(p)
	if l.Epoch = epoch; epoch > 1 {
		k := Link{Owner: alice.id, Epoch: epoch - 1}
		if epoch > 2 {
			k.Prev = Digest{1}
		}
		l.Links = []Link{k}
	}
	return l
}

// after returns the lease of p after old, without evidence, with the times of first.
func after(old Lease, p someone) Lease {
	l, times := old.Next(p.id), first(p)
	l.Issued, l.Expires = times.Issued, times.Expires
	return l
}

func grant(t testing.TB, from, to someone, epoch uint64) []byte {
	t.Helper()
	b, err := held(from, epoch-1).GrantTo(to.id, noon, from.key)
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

// draft is a lease that may be wrong in every part.
type draft struct {
	leaseBody
	Grant    []byte
	Takeover *Takeover
	Links    []Link
}

func bodyOf(l Lease) draft {
	grant, takeover := l.Grant, l.Takeover
	l.Grant, l.Takeover = nil, nil
	b, _, _, err := bodiesOf(l)
	if err != nil {
		panic(err)
	}
	return draft{b, grant, takeover, l.Links}
}

// forge signs any body, checked or not.
func forge(t testing.TB, d draft, by someone) []byte {
	t.Helper()
	b, evidence, links, err := bodiesOf(Lease{Grant: d.Grant, Takeover: d.Takeover, Links: d.Links})
	if err != nil {
		t.Fatal(err)
	}
	if d.Evidence == nil {
		d.Evidence = b.Evidence
	}
	sealed, err := sealBodies(d.leaseBody, evidence, links, nil, by.key)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// witnessSet returns the sealed witness set of owner with these members.
func witnessSet(t testing.TB, owner someone, seq uint64, members ...someone) []byte {
	t.Helper()
	p := WitnessSet{Owner: owner.id, Seq: seq, Members: ids(members), Issued: noon}
	b, err := SealWitnessSet(p, owner.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ids(ps []someone) []peer.ID {
	var all []peer.ID
	for _, p := range ps {
		all = append(all, p.id)
	}
	slices.Sort(all)
	return all
}

// votes returns each voter's vote for what ballot says, in order.
func votes(t testing.TB, ballot Vote, voters ...someone) [][]byte {
	t.Helper()
	voters = slices.Clone(voters) // tests that run at the same time share some
	slices.SortFunc(voters, func(a, b someone) int { return cmp.Compare(a.id, b.id) })
	var all [][]byte
	for _, p := range voters {
		ballot.Voter = p.id
		b, err := SealVote(ballot, p.key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	return all
}

// sealedVote is what a takeover of alice's subnet by bob at epoch 2 asks of witnesses.
func sealedVote() Vote {
	return Vote{Subnet: subnet4, Epoch: 2, From: alice.id, To: bob.id, SetSeq: 7,
		Ended: first(alice).Digest(), Issued: noon}
}

// taken returns bob's lease of epoch 2 by the votes of three of alice's witnesses.
func taken(t testing.TB) Lease {
	t.Helper()
	l := after(first(alice), bob)
	l.Takeover = &Takeover{
		WitnessSet: witnessSet(t, alice, 7, folk[2], folk[3], folk[4], folk[5]),
		Votes:      votes(t, sealedVote(), folk[2], folk[3], folk[4]),
	}
	return l
}

// inherited returns bob's lease of epoch 2 after a long silence of alice.
func inherited(t testing.TB) Lease {
	t.Helper()
	l, old := after(first(alice), bob), first(alice)
	old.Issued = noon.Add(-LongSilence)
	s, err := split(seal(t, old, alice))
	if err != nil {
		t.Fatal(err)
	}
	l.Takeover = &Takeover{Last: s.Envelope, At: noon}
	return l
}

func somewhere() *coords.Proxy {
	return &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{12, -7, 3}, Height: 2, Error: 0.2},
		Delay: 40, Scale: 2, PerKB: 0.1, Error: 0.1, Samples: 8,
	}
}

// at returns a clock that stands still.
func at(t time.Time) clock.Clock { return clock.Of(func() time.Time { return t }) }

// contacts answers alike for all peers and times.
type contacts struct {
	silent, apart bool
	nearest       []peer.ID
}

func (c *contacts) Silent(peer.ID, time.Time, time.Time) bool { return c.silent }
func (c *contacts) Apart(peer.ID, time.Time) bool             { return c.apart }
func (c *contacts) Joined(_, _ peer.ID) bool                  { return false }
func (c *contacts) Nearest(netip.Prefix) []peer.ID            { return slices.Clone(c.nearest) }
