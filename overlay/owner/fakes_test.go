package owner

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/lease/register/registertest"
	"peerd/overlay/shadow"
	"peerd/overlay/witness"
	"peerd/store"
)

// fakeReplicas is a Replicas that says what a test wants and notes what is
// asked of it.
type fakeReplicas struct {
	db *store.DB

	mu       sync.Mutex
	held     map[netip.Prefix]shadow.Held
	states   map[peer.ID]shadow.Follower
	follows  map[netip.Prefix][]peer.ID
	dropped  []peer.ID
	flush    func(p netip.Prefix, to []peer.ID) error
	await    error
	demoted  []netip.Prefix
	pins     map[netip.Prefix]bool
	reminded map[netip.Prefix][]peer.ID // owners
	others   map[peer.ID][]shadow.Copy  // copies that other peers keep; who is not there does not answer
}

func newFakeReplicas(db *store.DB) *fakeReplicas {
	return &fakeReplicas{
		db: db, held: map[netip.Prefix]shadow.Held{}, states: map[peer.ID]shadow.Follower{},
		pins: map[netip.Prefix]bool{}, follows: map[netip.Prefix][]peer.ID{}, reminded: map[netip.Prefix][]peer.ID{},
	}
}

func (f *fakeReplicas) SetPanel([]byte) {}

func (f *fakeReplicas) Follow(p netip.Prefix, to peer.ID, _ shadow.Open) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.follows[p], to) {
		f.follows[p] = append(f.follows[p], to)
	}
	if _, _, ok := f.db.TailHead(p); !ok {
		return f.db.StartTail(p, 77, store.TailPos{})
	}
	return nil
}

func (f *fakeReplicas) Unfollow(p netip.Prefix, to peer.ID, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.follows[p] = slices.DeleteFunc(f.follows[p], func(id peer.ID) bool { return id == to })
	f.dropped = append(f.dropped, to)
}

func (f *fakeReplicas) State(_ netip.Prefix, to peer.ID) shadow.Follower {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.states[to]
	if st.Heard.IsZero() && st.Err == nil { // it keeps up
		st.Heard = time.Now()
	}
	return st
}

func (f *fakeReplicas) set(to peer.ID, s shadow.Follower) {
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

func (f *fakeReplicas) Ask(_ context.Context, to peer.ID, ps []netip.Prefix) (all []shadow.Copy, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	copies, ok := f.others[to]
	if !ok {
		return nil, shadow.ErrLink
	}
	for _, c := range copies {
		if slices.Contains(ps, c.Subnet) {
			all = append(all, c)
		}
	}
	return all, nil
}

func (f *fakeReplicas) Remind(_ context.Context, owner peer.ID, ps []netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range ps {
		f.reminded[p] = append(f.reminded[p], owner)
	}
	return nil
}

func (f *fakeReplicas) Leave(p netip.Prefix) error { return f.db.StopTail(p) }

func (f *fakeReplicas) Held() (all []shadow.Held) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.held {
		all = append(all, h)
	}
	return all
}

func (f *fakeReplicas) Copy(p netip.Prefix) (shadow.Held, bool) {
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

func (f *fakeReplicas) PromoteBy(p netip.Prefix, fn func(store.TailPos) error) error {
	h, ok := f.Copy(p)
	if !ok {
		return shadow.ErrNotHeld
	}
	if err := fn(h.Pos); err != nil {
		return err
	}
	return f.Forget(p)
}

func (f *fakeReplicas) Forget(p netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.held, p)
	return nil
}

func (f *fakeReplicas) Demote(p netip.Prefix, to peer.ID, epoch uint64, lease []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.demoted = append(f.demoted, p)
	return f.db.Update(func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: p, Phase: store.PhaseShadow, Lease: lease, Epoch: epoch, From: to.String()})
	})
}

// fakeWitness is a Witness whose panel votes as a test says.
type fakeWitness struct {
	mu     sync.Mutex
	right  bool
	until  time.Time // of the right
	panel  []byte
	voters []someone // of a silent owner's panel, who vote
	me     someone
	asks   int
	others map[peer.ID][]byte // the panels of others that witnesses know
}

func (f *fakeWitness) Right() (bool, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.right, f.until
}

func (f *fakeWitness) Panel() []byte { return f.panel }

func (f *fakeWitness) PanelOf(_ context.Context, owner peer.ID) []byte { return f.others[owner] }

func (f *fakeWitness) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asks
}

func (f *fakeWitness) Ask(_ context.Context, owner peer.ID, panel []byte, steps []witness.Step) (witness.Tally, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asks++
	p, err := lease.OpenPanel(panel)
	if err != nil {
		return witness.Tally{}, err
	}
	t := witness.Tally{
		Panel: panel, Needed: p.Needed(), Votes: map[netip.Prefix][][]byte{}, Until: time.Now().Add(witness.VoteWindow),
	}
	for _, s := range steps {
		for _, v := range f.voters {
			sealed, err := lease.SealVote(lease.Vote{
				Voter: v.id, Subnet: s.Subnet, Epoch: s.Epoch, From: owner, To: f.me.id, PanelSeq: p.Seq, Issued: time.Now(),
			}, v.key)
			if err != nil {
				return t, err
			}
			t.Votes[s.Subnet] = append(t.Votes[s.Subnet], sealed)
		}
	}
	return t, nil
}

// panelOf is a panel of an owner with these members.
func panelOf(t *testing.T, owner someone, members ...someone) []byte {
	t.Helper()
	var ids []peer.ID
	for _, m := range members {
		ids = append(ids, m.id)
	}
	slices.Sort(ids)
	sealed, err := lease.SealPanel(lease.Panel{Owner: owner.id, Seq: 1, Members: ids, Issued: time.Now()}, owner.key)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// guardedBy joins a peer with a fake panel and fake replicas.
func guardedBy(t *testing.T, me someone, m *member, change func(*Config)) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	dht, db := newDHT(), openStore(t)
	if m != nil {
		dht = m.dht
	}
	return guardedOn(t, me, dht, db, change)
}

// guardedOn is guardedBy on a store.
func guardedOn(t *testing.T, me someone, dht *registertest.DHT, db *store.DB, change func(*Config)) (*member, *fakeReplicas, *fakeWitness) {
	t.Helper()
	r, w := newFakeReplicas(db), &fakeWitness{right: true, me: me}
	m := join(t, me, dht, db, func(c *Config) {
		c.Replicas, c.Witness, c.Shadows = r, w, 1
		c.Times = Times{Silence: 20 * time.Millisecond, Spread: time.Millisecond, Lost: 50 * time.Millisecond, Revive: 50 * time.Millisecond}
		if change != nil {
			change(c)
		}
	})
	return m, r, w
}
