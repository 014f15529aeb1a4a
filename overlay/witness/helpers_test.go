package witness

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/internal/clock"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testPeer is a peer with its key; testPeers are the same in every run.
type testPeer struct {
	id  peer.ID
	key crypto.PrivKey
}

var testPeers = overlaytest.Identities(1, 9, func(id peer.ID, key crypto.PrivKey) testPeer {
	return testPeer{id, key}
})

// memStore is a Store in memory.
type memStore struct {
	mu   sync.Mutex
	vals map[string][]byte
	slow time.Duration
	full bool
}

func newMemStore() *memStore { return &memStore{vals: map[string][]byte{keyInitialized: {1}}} }

var errFull = errors.New("disk full")

func (d *memStore) Each(fn func(string, []byte) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, v := range d.vals {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// setFull makes writes fail, or succeed again.
func (d *memStore) setFull(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = on
}

func (d *memStore) Write(vals map[string][]byte) error {
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	if slow > 0 {
		time.Sleep(slow)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.full {
		return errFull
	}
	for k, v := range vals {
		if v == nil {
			delete(d.vals, k)
		} else {
			d.vals[k] = v
		}
	}
	return nil
}

// fakeNet delivers messages between the nodes of one test, in virtual time.
type fakeNet struct {
	mu    sync.Mutex
	rnd   *rand.Rand
	nodes map[peer.ID]*node
	// delay bounds the delay of a message, rareDelay that of one in twenty; loss and
	// duplicate are probabilities.
	delay, rareDelay time.Duration
	loss, duplicate  float64
	cut              map[[2]peer.ID]bool       // from, to
	farDelay         map[peer.ID]time.Duration // bound of the delay to and from some nodes
	bytes            int
	inFlight         sync.WaitGroup
}

func newNet(seed uint64) *fakeNet {
	return &fakeNet{
		rnd: rand.New(rand.NewPCG(seed, 1)), nodes: map[peer.ID]*node{},
		delay: 20 * time.Millisecond, cut: map[[2]peer.ID]bool{},
		farDelay: map[peer.ID]time.Duration{},
	}
}

// fakeNode is a Node of functions; nil ones do nothing.
type fakeNode struct {
	send    func(context.Context, peer.ID, []byte) ([]byte, error)
	present func() []peer.ID
	revoked func(context.Context, []Revocation) error
	reread  func()
	origin  func(peer.ID) Origin
	idle    atomic.Bool
}

func (n *fakeNode) SendHeartbeat(ctx context.Context, p peer.ID, payload []byte) ([]byte, error) {
	return n.send(ctx, p, payload)
}

func (n *fakeNode) LivePeers() []peer.ID { return n.present() }

func (n *fakeNode) Owns() bool { return !n.idle.Load() }

func (n *fakeNode) Origin(p peer.ID) Origin {
	if n.origin == nil {
		return Origin{Old: true}
	}
	return n.origin(p)
}

func (n *fakeNode) Revoked(ctx context.Context, list []Revocation) error {
	if n.revoked == nil {
		return nil
	}
	return n.revoked(ctx, list)
}

func (n *fakeNode) RereadLeases() {
	if n.reread != nil {
		n.reread()
	}
}

// node is one peer: its Store, which survives a crash, and its Service, which does not.
type node struct {
	testPeer
	net     *fakeNet
	disk    Store
	cfg     Config
	tells   *fakeNode // cfg.Node
	offset  time.Duration
	rate    float64 // of the clock
	created time.Time
	before  func(*node) // called before a request is sent

	mu     sync.Mutex
	after  func(*node, peer.ID, reply) // called before a reply is handled
	s      *Service
	answer func(context.Context, peer.ID, request) (reply, error)
	ctx    context.Context
	stop   func()
	paused chan struct{} // nil, or closed at the end of the pause
}

func (f *fakeNet) add(who testPeer) *node {
	n := &node{testPeer: who, net: f, disk: newMemStore(), cfg: DefaultConfig(), rate: 1,
		created: time.Now(), tells: &fakeNode{}}
	n.cfg.Node = n.tells
	n.cfg.Key = who.key
	n.tells.present = func() []peer.ID {
		f.mu.Lock()
		defer f.mu.Unlock()
		var all []peer.ID
		for id := range f.nodes {
			all = append(all, id)
		}
		return all
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes[who.id] = n
	return n
}

// clock returns the time by the node's clock.
func (n *node) clock() time.Time {
	real := time.Since(n.created)
	return n.created.Add(n.offset + time.Duration(float64(real)*n.rate)).Round(0)
}

// now is the clock that the Service uses: it blocks while the node is paused.
func (n *node) now() time.Time {
	n.waitPaused()
	return n.clock()
}

// setAfter sets what is called before a reply is handled.
func (n *node) setAfter(fn func(*node, peer.ID, reply)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.after = fn
}

func (n *node) waitPaused() {
	n.mu.Lock()
	p := n.paused
	n.mu.Unlock()
	if p != nil {
		<-p
	}
}

func (n *node) pause(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if on && n.paused == nil {
		n.paused = make(chan struct{})
	}
	if !on && n.paused != nil {
		close(n.paused)
		n.paused = nil
	}
}

// start starts a Service on the node.
func (n *node) start(t testing.TB) *Service {
	n.cfg.Store = n.disk
	s, err := build(n.cfg, n.id, n, clock.Of(n.clock))
	if err != nil {
		t.Error(err)
		return nil
	}
	s.clock = clock.Of(n.now)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	n.mu.Lock()
	n.s, n.ctx = s, ctx
	n.stop = func() { cancel(); <-ended }
	n.mu.Unlock()
	go func() {
		defer close(ended)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	return s
}

// kill ends the Service.
func (n *node) kill() {
	n.pause(false)
	n.mu.Lock()
	stop := n.stop
	n.s, n.answer, n.stop = nil, nil, nil
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// end ends all nodes.
func (f *fakeNet) end() {
	for _, n := range f.nodes {
		n.kill()
	}
	synctest.Wait() // goroutines of a completed RequestVotes may be about to send
	f.inFlight.Wait()
}

// service returns the Service, nil while there is none.
func (n *node) service() *Service {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s
}

func (n *node) serve(
	ctx context.Context, answer func(context.Context, peer.ID, request) (reply, error),
) {
	n.mu.Lock()
	if n.ctx == ctx || n.s != nil {
		n.answer = answer
	}
	n.mu.Unlock()
	<-ctx.Done()
}

func (n *node) prefixOf(peer.ID) netip.Prefix { return netip.Prefix{} }

var errLost = errors.New("no answer")

// draw returns the delay of a message, and whether it arrives, and twice.
func (f *fakeNet) draw(from, to peer.ID) (d time.Duration, comes, twice bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d = time.Duration(f.rnd.Int64N(int64(max(f.delay, f.farDelay[from], f.farDelay[to])) + 1))
	if f.rareDelay > 0 && f.rnd.Float64() < 0.05 {
		d = time.Duration(f.rnd.Int64N(int64(f.rareDelay)))
	}
	return d, !f.cut[[2]peer.ID{from, to}] && f.rnd.Float64() >= f.loss,
		f.rnd.Float64() < f.duplicate
}

func (f *fakeNet) count(v any) []byte {
	b, err := wire.Marshal(v)
	if err != nil {
		panic(err)
	}
	f.mu.Lock()
	f.bytes += len(b) + 1
	f.mu.Unlock()
	return b
}

// call implements transport.
func (n *node) call(ctx context.Context, p peer.ID, r request) (reply, error) {
	to := n.net.nodes[p]
	raw := n.net.count(r)
	got := make(chan reply, 2)
	n.waitPaused()
	if n.before != nil {
		n.before(n)
	}
	d, comes, twice := n.net.draw(n.id, p)
	if to != nil && comes {
		n.net.inFlight.Go(func() { to.receive(n.id, raw, d, got) })
		if twice {
			n.net.inFlight.Go(func() { to.receive(n.id, raw, 3*d, got) })
		}
	}
	t := time.NewTimer(n.cfg.Interval)
	defer t.Stop()
	var back reply
	select {
	case back = <-got:
	case <-t.C:
		n.waitPaused()
		select { // the reply may have come while the node was paused
		case back = <-got:
		default:
			return reply{}, errLost
		}
	case <-ctx.Done():
		return reply{}, context.Cause(ctx)
	}
	n.waitPaused()
	n.mu.Lock()
	after := n.after
	n.mu.Unlock()
	if after != nil {
		after(n, p, back)
	}
	return back, nil
}

// receive answers a request after d, if a Service runs, and sends the reply.
func (n *node) receive(from peer.ID, raw []byte, d time.Duration, got chan reply) {
	time.Sleep(d)
	n.waitPaused()
	n.mu.Lock()
	answer, ctx := n.answer, n.ctx
	n.mu.Unlock()
	if answer == nil {
		return
	}
	var r request
	if err := wire.Unmarshal(raw, &r); err != nil {
		panic(err)
	}
	a, err := answer(ctx, from, r)
	if err != nil || ctx.Err() != nil {
		return
	}
	n.waitPaused()
	d, comes, _ := n.net.draw(n.id, from)
	if !comes {
		return
	}
	raw = n.net.count(a)
	time.Sleep(d)
	var back reply
	if err := wire.Unmarshal(raw, &back); err != nil {
		panic(err)
	}
	got <- back
}

// sorted returns peers in the order of witness sets.
func sorted(ps []testPeer) []testPeer {
	ps = slices.Clone(ps)
	slices.SortFunc(ps, func(a, b testPeer) int { return cmp.Compare(a.id, b.id) })
	return ps
}
