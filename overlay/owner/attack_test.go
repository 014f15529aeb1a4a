package owner

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/overlay/replica"
)

// stranger returns a peer that no other one knows.
func stranger(t *testing.T) someone {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return someone{id, key}
}

// forgery is a lease that a stranger made.
type forgery struct {
	by     someone
	epoch  uint64
	sealed []byte
}

// forgeries returns leases that a stranger can make of the subnet of a lease of alice, without
// her consent and that of her witnesses, by what each of them pretends. All are well formed.
func forgeries(t *testing.T, l lease.Lease) map[string]forgery {
	t.Helper()
	all := map[string]forgery{}
	now := time.Now()
	add := func(name string, l lease.Lease, by someone) {
		l.Issued, l.Expires = now, now.Add(time.Hour)
		sealed, err := lease.SealLease(l, by.key)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = forgery{by, l.Epoch, sealed}
	}
	granted := func(old lease.Lease, from, to someone) lease.Lease {
		next := old.Next(to.id)
		var err error
		if next.Grant, err = old.GrantTo(to.id, now, from.key); err != nil {
			t.Fatal(err)
		}
		return next
	}
	x, y := stranger(t), stranger(t)
	claim := lease.Lease{Subnet: l.Subnet, Owner: x.id, Epoch: 1, Claimed: now}
	add("grant by a second key", granted(claim, x, y), y)
	backdated := claim
	backdated.Claimed = l.Claimed.Add(-time.Hour)
	add("earlier claim", granted(backdated, x, y), y)

	high := lease.Lease{Subnet: l.Subnet, Owner: x.id, Epoch: 1 << 47,
		Links: []lease.Link{{Owner: y.id, Epoch: 1<<47 - 1, Prev: lease.Digest{1}}}}
	add("high epoch", granted(high, x, y), y)
	next := lease.Lease{Subnet: l.Subnet, Owner: x.id, Epoch: l.Epoch + 1,
		Links: []lease.Link{{Owner: l.Owner, Epoch: l.Epoch}}}
	add("another step of alice before", granted(next, x, y), y)

	for { // a key with a claim that wins the tie
		z := stranger(t)
		if l2 := (lease.Lease{Subnet: l.Subnet, Owner: z.id, Epoch: 1}); lease.Better(l2, l) > 0 {
			add("ground hash", l2, z)
			break
		}
	}

	voted := claim.Next(y.id)
	var votes [][]byte
	sybils := []someone{stranger(t), stranger(t)}
	for _, s := range sybils {
		v, err := lease.SealVote(lease.Vote{Voter: s.id, Subnet: l.Subnet, Epoch: 2, From: x.id,
			To: y.id, SetSeq: 1, Ended: claim.Digest(), Issued: now}, s.key)
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, v)
	}
	if sybils[0].id > sybils[1].id {
		slices.Reverse(votes)
	}
	voted.Takeover = &lease.Takeover{WitnessSet: witnessSetOf(t, x, sybils...), Votes: votes}
	add("votes of its own witnesses", voted, y)

	old := l // as anybody may have kept it
	old.Issued, old.Expires = now.Add(-2*lease.LongSilence), now.Add(time.Hour)
	last, err := lease.SealLease(old, alice.key)
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Next(x.id)
	silent.Takeover = &lease.Takeover{Last: envelope(t, last), At: now.Add(-lease.Skew)}
	add("silence", silent, x)
	silent.Takeover = &lease.Takeover{Last: envelope(t, last), At: now.Add(-lease.LongSilence / 2)}
	add("silence long ago", silent, x)

	replayed := l // of alice, which she had claimed before and granted to x
	replayed.Claimed = l.Claimed.Add(-48 * time.Hour)
	add("grant of an earlier time", granted(replayed, alice, x), x)
	other := l
	other.Network = "another"
	add("grant of another network", granted(other, alice, x), x)
	return all
}

// envelope returns what a takeover shows of a lease.
func envelope(t *testing.T, sealed []byte) []byte {
	t.Helper()
	l, err := lease.LastOf(sealed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// busy is a judge's view of a peer that has heard all others all the time.
func busy(leases *lease.Config) {
	leases.Judge = lease.NewJudge(clock.Clock{}, hearing{})
}

// hearing is the contacts of a peer that has heard all others all the time.
type hearing struct{}

func (hearing) Silent(peer.ID, time.Time, time.Time) bool { return false }
func (hearing) Joined(_, _ peer.ID) bool                  { return false }
func (hearing) Apart(peer.ID, time.Time) bool             { return false }
func (hearing) Nearest(netip.Prefix) []peer.ID            { return nil }

// joinBusy is join for a peer that has heard all others all the time.
func joinBusy(t *testing.T, m *member, me someone) *lease.Registry {
	t.Helper()
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Settle = me.id, me.key, m.values, 0
	busy(&lc)
	r, err := lease.NewRegistry(lc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Whatever a stranger sends, and whatever it writes to the DHT: the owner keeps its subnet and
// its queue and accepts URLs, and others who know it send URLs to it.
func TestNoStrangerTakesASubnet(t *testing.T) {
	t.Parallel()
	names := forgeries(t, lease.Lease{Subnet: subnetA, Owner: alice.id, Epoch: 1,
		Claimed: time.Now()})
	for name := range names {
		for channel, send := range map[string]func(*member, forgery){
			"receipt": func(m *member, f forgery) { m.resolver.Learn(f.sealed) },
			"offer": func(m *member, f forgery) {
				_, _ = m.arrivals.AcceptOffer(t.Context(), f.by.id, handover.Offer{Subnet: subnetA,
					Epoch: f.epoch + 1, Lease: f.sealed})
			},
			"copy": func(m *member, f forgery) {
				_ = m.policy.AcceptCopy(f.by.id, replica.OpenRequest{Subnet: subnetA,
					Epoch: f.epoch,
					Lease: f.sealed})
			},
			"gossip": func(m *member, f forgery) {
				if l, err := lease.OpenLease(f.sealed); err == nil {
					m.ObserveLease(l)
				}
			},
			"DHT": func(m *member, f forgery) {
				m.dht.Plant(lease.Key(subnetA), f.sealed) // every record holder lies
				m.leases.reread(t.Context(), subnetA)
			},
		} {
			t.Run(name+" by "+channel, func(t *testing.T) {
				t.Parallel()
				attack(t, name, send)
			})
		}
	}
}

func attack(t *testing.T, name string, send func(*member, forgery)) {
	dht := newDHT()
	m := join(t, alice, dht, nil, nil)
	m.cfg.Leases = joinBusy(t, m, alice)
	m.Manager.cfg.Leases = m.cfg.Leases
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 3)
	m.mu.Lock()
	s := m.subnets[subnetA]
	m.mu.Unlock()
	aged := time.Now().Add(-time.Hour) // it was claimed long ago
	m.cfg.Leases.Replaces(s.lease, s.lease, aged)

	other := join(t, bob, dht, nil, nil)
	other.Manager.cfg.Leases = joinBusy(t, other, bob)
	leases := other.Manager.cfg.Leases
	if l, _, err := leases.Refresh(t.Context(), subnetA); err != nil || l.Owner != alice.id {
		t.Fatalf("before: %v, %v", l.Owner, err)
	}
	leases.Replaces(s.lease, s.lease, aged)

	f := forgeries(t, s.lease)[name]
	send(m, f)
	send(other, f)
	m.run()
	time.Sleep(20 * time.Millisecond) // it would yield at once
	if !m.Live(subnetA) || m.queued("a.test") != 3 || m.routedURLs() != 0 {
		t.Errorf("live %v, %d queued, %d sent away", m.Live(subnetA), m.queued("a.test"),
			m.routedURLs())
	}
	if ok, moving, _ := m.resolver.Accepts(subnetA); !ok || moving {
		t.Errorf("accepts %v, moving %v", ok, moving)
	}
	if l, ok := m.cfg.Leases.Cached(subnetA); !ok || l.Owner != alice.id {
		t.Errorf("the owner believes in %v", l.Owner)
	}
	other.names["a.test"] = []netip.Addr{addrA}
	r, err := other.resolver.Resolve(t.Context(), "a.test", netip.Addr{})
	if err != nil || r.Kind != outbox.Foreign || r.Owner != alice.id {
		t.Errorf("others send to %+v, %v", r, err)
	}
	changed, err := other.resolver.RefreshOwner(t.Context(), subnetA, alice.id, false)
	if err == nil && changed {
		t.Error("others find another owner")
	}
}
