package witness

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/lease"
)

// What ownership costs, as the package comments say. Not counted are lookups in the
// DHT and what lies below: headers, handshakes, acknowledgements.
func TestTraffic(t *testing.T) {
	const replicas, subnets = 12, 50_000
	now := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	owner, from := folk[1], folk[0]
	proxy := &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{12, -7, 3}, Height: 2, Error: 0.2},
		Delay: 40, Scale: 2, PerKB: 0.1, Error: 0.1, Samples: 8,
	}
	claim := lease.Lease{Subnet: subnet, Owner: owner.id, Epoch: 1, Issued: now, Expires: now.Add(lease.DefaultTTL), Proxy: proxy}
	granted, taken := claim, claim
	granted.Epoch, taken.Epoch = 2, 2
	var err error
	granted.Grant, err = lease.SealGrant(lease.Grant{Subnet: subnet, From: from.id, To: owner.id, Epoch: 2, Issued: now}, from.key)
	if err != nil {
		t.Fatal(err)
	}
	members := sorted(folk[2:6])
	e := &lease.Takeover{}
	e.Panel, err = lease.SealPanel(lease.Panel{Owner: from.id, Seq: 1, Members: ids(members), Issued: now}, from.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members[:3] {
		v, err := lease.SealVote(lease.Vote{Voter: m.id, Subnet: subnet, Epoch: 2, From: from.id, To: owner.id, PanelSeq: 1, Issued: now}, m.key)
		if err != nil {
			t.Fatal(err)
		}
		e.Votes = append(e.Votes, v)
	}
	taken.Takeover = e
	t.Logf("a panel of five: %d bytes, a vote: %d", len(e.Panel), len(e.Votes[0]))
	renewals := float64(time.Hour) / float64(lease.DefaultTTL/3)
	for name, l := range map[string]lease.Lease{"claim": claim, "transfer": granted, "takeover": taken} {
		sealed, err := lease.SealLease(l, owner.key)
		if err != nil {
			t.Fatal(err)
		}
		hour := 2 * float64(len(sealed)) * replicas * renewals // the DHT's answer to a write repeats it
		t.Logf("%s: %d bytes, %d replicas, %.2f renewals an hour: %.1f kB an hour and subnet, %.0f kB/s for %d subnets",
			name, len(sealed), replicas, renewals, hour/1e3, hour*subnets/3600/1e3, subnets)
		if hour > 10e3 {
			t.Errorf("%s: too much", name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f, _ := company(t, 8)
		defer f.end()
		time.Sleep(time.Minute)
		f.mu.Lock()
		f.bytes = 0
		f.mu.Unlock()
		time.Sleep(time.Hour)
		f.mu.Lock()
		got := f.bytes
		f.mu.Unlock()
		t.Logf("heartbeats to 4 witnesses: %.1f kB of messages an hour, %d bytes an exchange", float64(got)/1e3, got/(4*720))
		if got > 200e3 {
			t.Error("too much")
		}
	})
}

func ids(ps []someone) (all []peer.ID) {
	for _, p := range ps {
		all = append(all, p.id)
	}
	return all
}
