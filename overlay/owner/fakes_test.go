package owner

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/overlay/record/recordtest"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
	"peerd/store"
)

// fakeReplicas is a Replicas that says what a test wants and notes what is
// asked of it.
type fakeReplicas struct {
	db *store.DB

	mu       sync.Mutex
	held     map[netip.Prefix]replica.LocalCopy
	states   map[peer.ID]replica.Follower
	follows  map[netip.Prefix][]peer.ID
	dropped  []peer.ID
	flush    func(p netip.Prefix, to []peer.ID) error
	await    error
	demoted  []netip.Prefix
	again    []replica.OpenRequest // subnets and IDs with which AskAgain was called
	pins     map[netip.Prefix]bool
	notified map[netip.Prefix][]peer.ID // owners
	// copies that other peers keep; who is not there does not answer
	others map[peer.ID][]replica.RemoteCopy
}

func newFakeReplicas(db *store.DB) *fakeReplicas {
	return &fakeReplicas{
		db: db, held: map[netip.Prefix]replica.LocalCopy{}, states: map[peer.ID]replica.Follower{},
		pins: map[netip.Prefix]bool{}, follows: map[netip.Prefix][]peer.ID{},
		notified: map[netip.Prefix][]peer.ID{},
	}
}

func (f *fakeReplicas) SetWitnessSet([]byte) {}

func (f *fakeReplicas) Follow(p netip.Prefix, to peer.ID, _ uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.follows[p], to) {
		f.follows[p] = append(f.follows[p], to)
	}
	if _, _, ok := f.db.LogHead(p); !ok {
		return f.db.StartLog(p, 77, store.LogPos{})
	}
	return nil
}

func (f *fakeReplicas) Unfollow(p netip.Prefix, to peer.ID, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follows[p] = slices.DeleteFunc(f.follows[p], func(id peer.ID) bool { return id == to })
	f.dropped = append(f.dropped, to)
}

func (f *fakeReplicas) State(_ netip.Prefix, to peer.ID) replica.Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.states[to]
	if st.Heard.IsZero() && st.Err == nil { // it keeps up
		st.Heard = time.Now()
	}
	return st
}

func (f *fakeReplicas) set(to peer.ID, s replica.Follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[to] = s
}

func (f *fakeReplicas) followers(p netip.Prefix) []peer.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.follows[p])
}

func (f *fakeReplicas) Await(context.Context, netip.Prefix, peer.ID) error { return f.await }

func (f *fakeReplicas) Flush(ctx context.Context, p netip.Prefix, to ...peer.ID) error {
	if f.flush == nil {
		return nil
	}
	return f.flush(p, to)
}

func (f *fakeReplicas) QueryCopies(
	_ context.Context, to peer.ID, ps []netip.Prefix,
) (all []replica.RemoteCopy, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	copies, ok := f.others[to]
	if !ok {
		return nil, replica.ErrLink
	}
	for _, c := range copies {
		if slices.Contains(ps, c.Subnet) {
			all = append(all, c)
		}
	}
	return all, nil
}

func (f *fakeReplicas) ReportCopies(_ context.Context, owner peer.ID, ps []netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		f.notified[p] = append(f.notified[p], owner)
	}
	return nil
}

func (f *fakeReplicas) AskAgain(owner peer.ID, p netip.Prefix, id uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = append(f.again, replica.OpenRequest{Subnet: p, ID: id})
}

func (f *fakeReplicas) Release(p netip.Prefix) error { return f.db.StopLog(p) }

func (f *fakeReplicas) Copies() (all []replica.LocalCopy) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.held {
		all = append(all, h)
	}
	return all
}

func (f *fakeReplicas) Copy(p netip.Prefix) (replica.LocalCopy, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.held[p]
	return h, ok
}

func (f *fakeReplicas) Pin(p netip.Prefix, epoch uint64) (unpin func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h, ok := f.held[p]; !ok || h.Epoch != epoch || !h.Complete || f.pins[p] {
		return nil, false
	}
	f.pins[p] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.pins, p)
	}, true
}

func (f *fakeReplicas) Promote(p netip.Prefix, fn func(store.LogPos) error) error {
	h, ok := f.Copy(p)
	if !ok {
		return replica.ErrNotHeld
	}
	if err := fn(h.Pos); err != nil {
		return err
	}
	return f.Drop(p)
}

func (f *fakeReplicas) Drop(p netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, p)
	return nil
}

func (f *fakeReplicas) Demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time,
) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	head, _, _ := f.db.LogHead(p)
	return f.demote(p, to, epoch, lease, confirmed, head)
}

func (f *fakeReplicas) Keep(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	head, _, _ := f.db.LogHead(p)
	head.Log++
	return f.demote(p, to, epoch, lease, time.Time{}, head)
}

func (f *fakeReplicas) demote(
	p netip.Prefix, to peer.ID, epoch uint64, lease []byte, confirmed time.Time, head store.LogPos,
) error {
	f.demoted = append(f.demoted, p)
	f.held[p] = replica.LocalCopy{Subnet: p, Owner: to, Epoch: epoch, Lease: lease,
		Complete: true, Pos: head, Confirmed: confirmed}
	return f.db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: p, Phase: store.PhaseReplica, Lease: lease,
			Epoch: epoch, Owner: to.String()})
	})
}

// fakeWitness is a Witness with a witness set that votes as a test says.
type fakeWitness struct {
	mu     sync.Mutex
	right  bool
	until  time.Time // of the right
	set    []byte
	voters []someone // of a silent owner's witness set, who vote
	me     someone
	asks   int
	others map[peer.ID][]byte // the witness sets of others that witnesses know
	spare  int                // so many votes leave enough witnesses
	struck []peer.ID
}

func (f *fakeWitness) QuorumLease() (bool, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.right, f.until
}

func (f *fakeWitness) QuorumLeaseWithout(voters []peer.ID) (bool, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.right && len(voters) <= f.spare, time.Now().Add(time.Minute)
}

func (f *fakeWitness) Retired() time.Time { return time.Time{} }

func (f *fakeWitness) Strike(id peer.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.struck = append(f.struck, id)
}

func (f *fakeWitness) WitnessSet() []byte { return f.set }

func (f *fakeWitness) WitnessSetOf(_ context.Context, owner peer.ID) []byte {
	return f.others[owner]
}

func (f *fakeWitness) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks
}

func (f *fakeWitness) RequestVotes(
	_ context.Context, owner peer.ID, set []byte, steps []witness.Proposal,
) (witness.Tally, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks++
	p, err := lease.OpenWitnessSet(set)
	if err != nil {
		return witness.Tally{}, err
	}
	t := witness.Tally{
		WitnessSet: set, Needed: p.TakeoverQuorum(), Votes: map[netip.Prefix][][]byte{},
		Until: time.Now().Add(witness.VoteWindow),
	}
	for _, s := range steps {
		for _, v := range f.voters {
			sealed, err := lease.SealVote(lease.Vote{
				Voter: v.id, Subnet: s.Subnet, Epoch: s.Epoch, From: owner, To: f.me.id,
				SetSeq: p.Seq, Ended: s.Ended, Issued: time.Now(),
			}, v.key)
			if err != nil {
				return t, err
			}
			t.Votes[s.Subnet] = append(t.Votes[s.Subnet], sealed)
		}
	}
	return t, nil
}

// witnessSetOf is a witness set of an owner with these members.
func witnessSetOf(t *testing.T, owner someone, members ...someone) []byte {
	t.Helper()
	var ids []peer.ID
	for _, m := range members {
		ids = append(ids, m.id)
	}
	slices.Sort(ids)
	sealed, err := lease.SealWitnessSet(lease.WitnessSet{Owner: owner.id, Seq: 1, Members: ids,
		Issued: time.Now()}, owner.key)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// guardedBy joins a peer with a fake witness set and fake replicas.
func guardedBy(
	t *testing.T, me someone, m *member, change func(*Config),
) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	dht, db := newDHT(), openStore(t)
	if m != nil {
		dht = m.dht
	}
	return guardedOn(t, me, dht, db, change)
}

// guardedOn is guardedBy on a store.
func guardedOn(
	t *testing.T, me someone, dht *recordtest.DHT, db *store.DB, change func(*Config),
) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	r, w := newFakeReplicas(db), &fakeWitness{right: true, me: me}
	m := join(t, me, dht, db, func(c *Config) {
		c.Replicas, c.Witness, c.ReplicaCount = r, w, 1
		c.Times = Times{Silence: 20 * time.Millisecond, Spread: time.Millisecond,
			Lost: 50 * time.Millisecond, Revive: 50 * time.Millisecond}
		if change != nil {
			change(c)
		}
	})
	return m, r, w
}

// limiter is a Limiter of which every field may be nil.
type limiter struct {
	mayClaim   func() error
	online     func() bool
	limits     func(time.Time) Limits
	atCapacity func(who string) bool
}

func (l *limiter) MayClaim() error {
	if l.mayClaim == nil {
		return nil
	}
	return l.mayClaim()
}

func (l *limiter) Online() bool { return l.online == nil || l.online() }

func (l *limiter) CheckSpace() error { return nil }

func (l *limiter) Limits(now time.Time) Limits {
	if l.limits == nil {
		return Limits{}
	}
	return l.limits(now)
}

func (l *limiter) AtCapacity(who string) bool { return l.atCapacity != nil && l.atCapacity(who) }

// guard permits all addresses if check is nil.
type guard struct{ check func(netip.Addr) error }

func (g *guard) Check(a netip.Addr) error {
	if g.check == nil {
		return nil
	}
	return g.check(a)
}

// contacts has heard no peer if heard is nil, and knows no absence if absences is nil.
type contacts struct {
	heard    func(peer.ID) time.Time
	absences func(time.Time) []Absence
}

// contactsOf sets and returns the contacts of c.
func contactsOf(c *Config) *contacts {
	x := &contacts{}
	c.Contacts = x
	return x
}

func (c *contacts) Heard(who peer.ID) time.Time {
	if c.heard == nil {
		return time.Time{}
	}
	return c.heard(who)
}

func (c *contacts) Absences(since time.Time) []Absence {
	if c.absences == nil {
		return nil
	}
	return c.absences(since)
}

// ownerMap is an OwnerMap that the test may change.
type ownerMap struct{ known *assign.Delegations }

func (m ownerMap) Known() assign.Delegations { return *m.known }

type reachFunc func(context.Context, store.URL, []netip.Addr, time.Duration) (netip.Addr, bool)

func (f reachFunc) Reach(
	ctx context.Context, u store.URL, addrs []netip.Addr, recent time.Duration,
) (netip.Addr, bool) {
	return f(ctx, u, addrs, recent)
}
