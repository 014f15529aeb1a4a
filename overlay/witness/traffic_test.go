package witness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
)

// TestTraffic prints the cost of ownership. It does not count lookups in the DHT, nor
// headers, handshakes and acknowledgements of lower layers.
func TestTraffic(t *testing.T) {
	t.Parallel()
	const replicas, subnets = 12, 50_000
	now := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	owner, from := testPeers[1], testPeers[0]
	proxy := &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{12, -7, 3}, Height: 2, Error: 0.2},
		Delay: 40, Scale: 2, PerKB: 0.1, Error: 0.1, Samples: 8,
	}
	const network = "peerd-0123456789abcdef"
	claim := lease.Lease{Network: network, Subnet: subnet, Owner: owner.id,
		Epoch: 1, Claimed: now, Issued: now, Expires: now.Add(lease.DefaultTTL), Proxy: proxy}
	old := claim
	old.Owner = from.id
	next := func(old lease.Lease, p testPeer) lease.Lease {
		l := old.Next(p.id)
		l.Issued, l.Expires = claim.Issued, claim.Expires
		return l
	}
	granted, taken := next(old, owner), next(old, owner)
	var err error
	granted.Grant, err = old.GrantTo(owner.id, now, from.key)
	if err != nil {
		t.Fatal(err)
	}
	members := sorted(testPeers[2:6])
	e := &lease.Takeover{}
	e.WitnessSet, err = lease.SealWitnessSet(lease.WitnessSet{Network: network, Owner: from.id,
		Seq: 1, Members: ids(members), Issued: now}, from.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members[:3] {
		v, err := lease.SealVote(lease.Vote{Voter: m.id, Subnet: subnet, Epoch: 2,
			From: from.id, To: owner.id, SetSeq: 1, Ended: old.Digest(), Issued: now}, m.key)
		if err != nil {
			t.Fatal(err)
		}
		e.Votes = append(e.Votes, v)
	}
	taken.Takeover = e
	moved, movedBy := granted, owner // and four times again
	for i := range lease.MaxLinks {
		by := testPeers[i%2]
		g, err := moved.GrantTo(by.id, now, movedBy.key)
		if err != nil {
			t.Fatal(err)
		}
		moved, movedBy = next(moved, by), by
		moved.Grant = g
	}
	receipted := claim
	keyOf := func(_ peer.ID, key crypto.PrivKey) crypto.PrivKey { return key }
	for _, key := range overlaytest.Identities(71, replicas, keyOf) {
		receipted.Receipts, err = lease.AppendReceipt(receipted.Receipts, claim, key)
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("a set of four witnesses: %d bytes, a vote: %d", len(e.WitnessSet), len(e.Votes[0]))
	renewals := float64(time.Hour) / float64(lease.DefaultTTL/3)
	for name, l := range map[string]lease.Lease{"claim": claim, "claim with receipts": receipted,
		"transfer": granted, "takeover": taken, "five transfers": moved} {
		by := owner
		if l.Owner == movedBy.id {
			by = movedBy
		}
		sealed, err := lease.SealLease(l, by.key)
		if err != nil {
			t.Fatal(err)
		}
		// the reply to a write only says that it is held
		hour := float64(len(sealed)) * replicas * renewals
		t.Logf(
			"%s: %d bytes, %d holders, %.2f renewals/h: %.1f kB/h each, %.0f kB/s for %d subnets",
			name, len(sealed), replicas, renewals, hour/1e3, hour*subnets/3600/1e3, subnets)
		if hour > 6e3 {
			t.Errorf("%s: %.0f bytes an hour and subnet, want 6,000 or less", name, hour)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f, _ := startPeers(t, 8)
		defer f.end()
		time.Sleep(time.Minute)
		f.mu.Lock()
		f.bytes = 0
		f.mu.Unlock()
		time.Sleep(10 * time.Minute)
		f.mu.Lock()
		got := 6 * f.bytes // of an hour
		f.mu.Unlock()
		t.Logf("heartbeats to 4 witnesses: %.1f kB of messages an hour, %d bytes an exchange",
			float64(got)/1e3, got/(4*720))
		if got > 200e3 {
			t.Errorf("%d bytes of heartbeats an hour, want 200,000 or less", got)
		}
	})
}

func ids(ps []testPeer) (all []peer.ID) {
	for _, p := range ps {
		all = append(all, p.id)
	}
	return all
}
