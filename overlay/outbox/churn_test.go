package outbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

var churnSeed = flag.Uint64("churn", 0, "run TestChurn with this seed only; 0 runs seeds 1 to 10")

// world knows the true owner of each subnet. Peers have beliefs about it, which may be wrong.
type world struct {
	t     *testing.T
	rnd   *rand.Rand
	peers []*churner

	mu     sync.Mutex
	owner  []int // by subnet; -1 during a handover
	unsure bool  // Safe fails at random
	broken int   // streams still to be broken
}

// churner is a peer of a world.
type churner struct {
	*testPeer
	w      *world
	i      int
	server *wire.Server
	stop   func()
	killed bool
	belief []int // believed owner by subnet; guarded by w.mu
}

const churnHosts = 6

func churnHost(i int) string { return fmt.Sprintf("host%d.test", i) }

func newWorld(t *testing.T, seed uint64, hosts []host.Host) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), owner: make([]int, churnHosts),
		broken: 6}
	for i := range w.owner {
		w.owner[i] = w.rnd.IntN(len(hosts))
	}
	for i, h := range hosts {
		c := &churner{testPeer: newPeer(t, h, open(t, "")), w: w, i: i,
			belief: append([]int(nil), w.owner...)}
		c.script()
		cfg := c.config()
		cfg.MaxURLs = 1 + w.rnd.IntN(40)
		cfg.Node, cfg.Resolver = c, c
		f, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.f = f
		c.server = wire.Serve(h, proto, batchLimits, nil, c.serve)
		c.stop = c.run()
		w.peers = append(w.peers, c)
	}
	return w
}

// chance returns true with probability 1/n.
func (w *world) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rnd.IntN(n) == 0
}

func subnetIndex(p netip.Prefix) int {
	for i := range churnHosts {
		if subnet(i) == p {
			return i
		}
	}
	return -1
}

// script makes a peer act by its beliefs, which only RefreshOwner and Learn correct.
func (c *churner) script() {
	w := c.w
	c.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for s := range churnHosts {
			switch {
			case churnHost(s) != h:
			case w.owner[s] == c.i && w.rnd.IntN(6) > 0:
				return Resolution{}, errors.New("no answer just now")
			case w.owner[s] == c.i: // the host is new here
				c.own[h] = true
				return Resolution{Kind: Own, Subnet: subnet(s)}, nil
			case c.belief[s] == c.i: // it has left, and this peer does not know where to
				return Resolution{}, errors.New("leaving")
			default:
				return Resolution{Kind: Foreign, Subnet: subnet(s),
					Owner: w.peers[c.belief[s]].host.ID()}, nil
			}
		}
		return Resolution{}, ErrGone
	}
	c.accepts = func(p netip.Prefix) (ok, moving bool, lease []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		s := subnetIndex(p)
		switch {
		case w.owner[s] == c.i:
			return true, false, nil
		case w.owner[s] < 0:
			return false, true, nil
		}
		return false, false, []byte{byte(s), byte(w.owner[s])}
	}
	c.learn = func(l []byte) {
		w.mu.Lock()
		defer w.mu.Unlock()
		c.belief[l[0]] = int(l[1])
	}
}

// RefreshOwner reads the true owner, unless the subnet is being handed over.
func (c *churner) RefreshOwner(
	_ context.Context, p netip.Prefix, _ peer.ID, _ bool,
) (bool, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	s := subnetIndex(p)
	was := c.belief[s]
	if c.w.owner[s] >= 0 {
		c.belief[s] = c.w.owner[s]
	}
	return was != c.belief[s], nil
}

func (c *churner) Safe(_ context.Context, ps []netip.Prefix) (unsafe []netip.Prefix) {
	for _, p := range ps {
		c.w.mu.Lock()
		no := c.w.unsure
		c.w.mu.Unlock()
		if no && c.w.chance(3) {
			unsafe = append(unsafe, p)
		}
	}
	return unsafe
}

// serve is handle with random failures: before the batch is stored, or between storing and
// acknowledging it.
func (c *churner) serve(ctx context.Context, conn *wire.Conn) error {
	var b batch
	if err := conn.RecvZ(&b); err != nil {
		return err
	}
	c.w.mu.Lock()
	how := 0
	if c.w.broken > 0 && c.w.rnd.IntN(3) == 0 {
		c.w.broken--
		how = 1 + c.w.rnd.IntN(2)
	}
	c.w.mu.Unlock()
	if how == 1 {
		return errors.New("before the store")
	}
	r, err := c.f.receive(ctx, b)
	if err == nil && how == 2 {
		err = errors.New("before the acknowledgement")
	}
	if err != nil {
		return err
	}
	return conn.Send(r)
}

// move hands a subnet and its queue over. Everything else stays with the old owner.
func (w *world) move(s, to int) {
	w.mu.Lock()
	from := w.owner[s]
	if from < 0 || from == to || w.peers[to].killed {
		w.mu.Unlock()
		return
	}
	w.owner[s] = -1
	w.mu.Unlock()
	a, b, h := w.peers[from], w.peers[to], churnHost(s)
	a.set(func() { delete(a.own, h) })
	var es []store.Entry
	err := a.db.Update(func(tx *store.Tx) error { // after the transactions in progress
		es = nil
		return tx.Queue(h, nil, func(e store.Entry) (bool, error) {
			es = append(es, e)
			return true, nil
		})
	})
	if err == nil {
		err = a.db.DropHost(h)
	}
	if err == nil {
		err = b.db.Update(func(tx *store.Tx) error {
			if _, err := tx.Host(h); err != nil {
				tx.PutHost(store.Host{Name: h})
			}
			for _, e := range es {
				if _, err := tx.Push(h, store.Entry{URL: e.URL}, 0); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	w.owner[s] = to
	a.belief[s], b.belief[s] = to, to
	w.mu.Unlock()
	for _, p := range []*churner{a, b} {
		p.f.ResolveAgain(subnet(s))
	}
}

// kill ends a peer and loses its disk. As Node.Safe demands, a replica has the queues of its
// subnets, and nothing else.
func (w *world) kill(i int) {
	c := w.peers[i]
	c.server.Close()
	c.stop()
	c.killed = true
	for s := range churnHosts {
		w.mu.Lock()
		mine := w.owner[s] == i
		w.mu.Unlock()
		if mine {
			w.move(s, (i+1+s)%(len(w.peers)-1)) // the last peer is the one that is killed
		}
	}
}

// Whichever streams break, subnets move and peers fail: each URL ends in the queue of exactly
// one peer, the owner of its host.
func TestChurn(t *testing.T) {
	t.Parallel()
	hosts := []host.Host{listen(t), listen(t), listen(t), listen(t)}
	introduce(hosts...)
	seeds := []uint64{*churnSeed}
	if *churnSeed == 0 {
		seeds = nil
		for s := range 10 {
			seeds = append(seeds, uint64(s)+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { churn(t, seed, hosts) })
	}
}

func churn(t *testing.T, seed uint64, hosts []host.Host) {
	w := newWorld(t, seed, hosts)
	rnd := rand.New(rand.NewPCG(seed, 2))
	last := len(hosts) - 1 // it will be killed and finds no URLs
	want := map[string]int{}
	w.unsure = true
	for round := range 12 {
		s, from := rnd.IntN(churnHosts), rnd.IntN(last)
		var found []store.Pending
		for range 1 + rnd.IntN(60) {
			h := churnHost(s)
			found = append(found, store.Pending{URL: url(h, want[h]), Found: time.Now()})
			want[h]++
		}
		to := rnd.IntN(len(hosts))
		kill := round == 8
		if err := w.peers[from].Route(found); err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(2) == 0 {
			w.move(rnd.IntN(churnHosts), to)
		}
		if kill {
			// The worst moment: URLs were received and are not in a queue yet.
			for range 50 {
				if w.peers[last].pendingURLs() > 0 {
					break
				}
				<-time.After(2 * time.Millisecond)
			}
			w.kill(last)
		}
	}
	w.mu.Lock()
	w.unsure = false
	w.mu.Unlock()
	eventually(t, "no URLs are pending", func() bool {
		for _, c := range w.peers {
			if !c.killed && !c.idle() {
				return false
			}
		}
		return true
	})
	for s, o := range w.owner {
		h := churnHost(s)
		for i, c := range w.peers {
			n := 0
			if i == o {
				n = want[h]
			}
			if got := c.queued(h); got != n {
				t.Errorf("seed %d: peer %d has %d URLs of %s, want %d", seed, i, got, h, n)
			}
		}
	}
	for _, c := range w.peers {
		if !c.killed {
			c.server.Close()
			c.stop()
		}
	}
}
