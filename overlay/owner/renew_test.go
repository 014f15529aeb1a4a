package owner

import (
	"context"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/lease"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// refusing is a DHT of which the record holders refuse every record if that is set.
type refusing struct {
	*recordtest.Peer
	held atomic.Pointer[map[peer.ID][]byte]
}

func (r *refusing) Put(ctx context.Context, key string, val []byte) (int, int, error) {
	if held := r.held.Load(); held != nil {
		return 0, 0, &record.RefusedError{Held: *held}
	}
	return r.Peer.Put(ctx, key, val)
}

// elders are old members; no peer was silent, and none apart.
type elders []peer.ID

func (elders) Silent(peer.ID, time.Time, time.Time) bool { return false }
func (elders) Joined(_, _ peer.ID) bool                  { return false }
func (elders) Apart(peer.ID, time.Time) bool             { return false }
func (e elders) Nearest(netip.Prefix) []peer.ID          { return e }

// Where most record holders hold another lease, which this peer does not know to be better, it
// fetches nothing until they take its own.
func TestRefusedRenewal(t *testing.T) {
	t.Parallel()
	dht := newDHT()
	values := &refusing{Peer: dht.Peer()}
	m := join(t, alice, dht, nil, func(c *Config) {
		lc := lease.DefaultConfig()
		lc.Self, lc.Key, lc.Values, lc.Settle = alice.id, alice.key, values, 0
		lc.Judge = lease.NewJudge(clock.Clock{}, elders{alice.id, bob.id, carol.id})
		var err error
		if c.Leases, err = lease.NewRegistry(lc); err != nil {
			t.Fatal(err)
		}
	})
	m.claim(subnetA)
	s := m.subnets[subnetA]
	_, other := rival(t, subnetA, bob)
	values.held.Store(&map[peer.ID][]byte{bob.id: other})
	m.leases.renew(t.Context(), s)
	if s.unit.Doubt != 0 {
		t.Error("one holder stops the owner")
	}
	values.held.Store(&map[peer.ID][]byte{bob.id: other, carol.id: other})
	m.leases.renew(t.Context(), s)
	m.still("refused")
	if m.MayFetch(subnetA) {
		t.Error("other peers fetch for a peer that may not")
	}
	if s.renewAt.After(time.Now()) {
		t.Error("the lease is not renewed again at once")
	}
	m.leases.renew(t.Context(), s)
	m.still("refused again")
	if !s.renewAt.After(time.Now()) {
		t.Error("the lease is renewed again without a pause")
	}
	values.held.Store(nil)
	m.leases.renew(t.Context(), s)
	if _, hold := m.placement.Where(subnetA); hold || s.unit.Doubt != 0 || !m.MayFetch(subnetA) {
		t.Error("nothing is fetched although the lease was renewed")
	}
}
