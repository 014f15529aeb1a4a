package nearest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/coords"
	"peerd/coords/zone"
	"peerd/overlay"
	"peerd/overlay/nearest"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const networkName = "nearest-test-net"

// member is one peer with its place.
type member struct {
	key     crypto.PrivKey
	net     *overlay.Net
	peers   *peers.Service
	nearest *nearest.Service
}

// place is an estimator that has learnt where it is and stays there, as round
// trips on loopback would fold all peers into one point.
func place(t testing.TB, seed uint64) *coords.Estimator {
	t.Helper()
	const samples = 200
	cfg := coords.DefaultConfig()
	cfg.Dimensions, cfg.WarmUp, cfg.MoveMax, cfg.GravityRho = 2, samples, 1e-9, 1e9
	cfg.Rand = rand.New(rand.NewPCG(seed, 1))
	est, err := coords.NewEstimator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := []float64{cfg.Rand.Float64() * 200, cfg.Rand.Float64() * 200}
	for i := range samples {
		anchor := coords.Coordinate{Vec: []float64{float64(i % 4 % 2 * 200), float64(i % 4 / 2 * 200)}, Height: 1, Error: 0.1}
		rtt := math.Hypot(at[0]-anchor.Vec[0], at[1]-anchor.Vec[1]) + 2
		if err := est.Observe(fmt.Sprint("anchor ", i%4), anchor, time.Duration(rtt*float64(time.Millisecond))); err != nil {
			t.Fatal(err)
		}
	}
	return est
}

// start makes a peer; it runs until the test ends if it has somebody to join.
func start(t *testing.T, seed int64, boot *member, run bool, change func(*peers.Config)) *member {
	t.Helper()
	key, _ := overlaytest.Identity(seed)
	cfg := overlay.DefaultConfig()
	cfg.Key, cfg.Network = key, networkName
	cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	if boot != nil {
		cfg.Bootstrap = []peer.AddrInfo{{ID: boot.net.Self(), Addrs: boot.net.Host.Addrs()}}
	}
	m := &member{key: key}
	var err error
	if m.net, err = overlay.New(cfg); err != nil {
		t.Fatal(err)
	}
	pc := peers.DefaultConfig()
	pc.Host, pc.Key, pc.Estimator = m.net.Host, key, place(t, uint64(seed))
	pc.Topic, pc.Protocol = m.net.Names.Beacons(), m.net.Names.Coords()
	change(&pc)
	if m.peers, err = peers.New(pc); err != nil {
		t.Fatal(err)
	}
	m.nearest = &nearest.Service{
		Host: m.net.Host, Protocol: m.net.Names.Nearest(), Peers: m.peers,
		Search: zone.DefaultSearchConfig(), Timeout: 30 * time.Second,
	}
	server := m.nearest.Serve()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	if run {
		go func() { ended <- m.net.Run(ctx) }()
		go func() { ended <- m.peers.Run(ctx) }()
	} else {
		ended <- nil
		ended <- nil
	}
	t.Cleanup(func() {
		cancel()
		server.Close()
		if err := errors.Join(<-ended, <-ended, m.net.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

func cost(target coords.Proxy, b peers.Beacon) time.Duration {
	return target.Predict(b.At.Unloaded(b.Wait), 0) + b.Wait
}

// Forty real peers of which each remembers sixteen: all can be reached, and
// who is near a target is found from anywhere.
func TestPartialViews(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: forty peers take some seconds; run without -short")
	}
	const n, size = 40, 16
	members := make([]*member, n)
	for i := range members {
		members[i] = start(t, int64(i+1), members[0], true, func(c *peers.Config) {
			c.MaxPeers, c.MaxConns, c.Partners = size, 8, 8
			c.Fast, c.Slow, c.Sync = 100*time.Millisecond, 400*time.Millisecond, 200*time.Millisecond
			c.Settled = 0.01 // hurry at first
		})
	}
	index := map[peer.ID]int{}
	for i, m := range members {
		index[m.net.Self()] = i
	}
	overlaytest.Within(t, 3*time.Minute, "all have partial views", func() bool {
		for _, m := range members {
			if d := m.peers.Directory(); !d.Partial() || d.Len() < size/2 || d.Len() > size {
				return false
			}
		}
		return true
	})
	overlaytest.Within(t, 3*time.Minute, "everybody is reachable from the last", func() bool {
		seen := map[int]bool{n - 1: true}
		for todo := []int{n - 1}; len(todo) > 0; todo = todo[1:] {
			for _, b := range members[todo[0]].peers.Directory().All() {
				if i := index[b.Peer]; !seen[i] {
					seen[i] = true
					todo = append(todo, i)
				}
			}
		}
		return len(seen) == n
	})
	const queries = 40
	good, mostHops := 0, 0
	overlaytest.Within(t, 3*time.Minute, "nine of ten searches find a peer within 15 % of the best", func() bool {
		good, mostHops = 0, 0
		rng := rand.New(rand.NewPCG(1, 1))
		for q := range queries {
			at := []float64{rng.Float64() * 200, rng.Float64() * 200}
			target := coords.Proxy{At: coords.Coordinate{Vec: at, Height: 1, Error: 0.1}, Delay: 5, Scale: 2}
			from := members[q%n]
			found, hops, err := from.nearest.Nearest(context.Background(), target, 3)
			if err != nil {
				t.Fatal(err)
			}
			best := time.Duration(math.MaxInt64)
			for _, m := range members {
				if m != from {
					best = min(best, cost(target, m.peers.Self()))
				}
			}
			if len(found) > 0 && cost(target, found[0]) <= best*115/100 {
				good++
			}
			for _, b := range found {
				if !from.peers.Directory().Alive(b.Peer) {
					t.Errorf("%s was found and is not in the directory", b.Peer)
				}
			}
			mostHops = max(mostHops, hops)
		}
		return good >= queries*9/10
	})
	t.Logf("%d of %d searches, at most %d hops", good, queries, mostHops)
	if most := int(math.Log2(n)); mostHops > most {
		t.Errorf("a search took %d hops, want at most %d", mostHops, most)
	}
}

// seal makes a beacon of a peer that need not exist.
func seal(t *testing.T, seed int64, addrs []string, x float64, change func(*peers.Beacon)) peers.Aged {
	t.Helper()
	key, id := overlaytest.Identity(seed)
	b := peers.Beacon{
		Peer: id, At: coords.Coordinate{Vec: []float64{x, 0}, Height: 1, Error: 0.1}, Capacity: 1,
		Seq: uint64(time.Now().UnixMilli()), Time: time.Now(), Addrs: addrs,
	}
	change(&b)
	names, err := overlay.NewNames(networkName)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := peers.Seal(key, names.Beacons(), b)
	if err != nil {
		t.Fatal(err)
	}
	return peers.Aged{Sealed: raw}
}

// wireAnswer is what travels.
type wireAnswer struct {
	Found   []peers.Aged `cbor:"1,keyasint,omitempty"`
	Refused string       `cbor:"2,keyasint,omitempty"`
}

// A searcher that knows nine peers, eight far ones that do not exist and one
// near the target that lies, is led nowhere.
func TestHostileAnswers(t *testing.T) {
	set := func(c *peers.Config) { c.MaxPeers = 8 }
	addrsOf := func(m *member) (texts []string) {
		for _, a := range m.net.Host.Addrs() {
			texts = append(texts, a.String())
		}
		return texts
	}
	honest := start(t, 3, nil, false, set)
	good := func(t *testing.T) peers.Aged { return seal(t, 3, addrsOf(honest), 0.5, func(*peers.Beacon) {}) }
	for name, c := range map[string]struct {
		answer func(*testing.T) any
		found  bool // the good one
		fair   bool // the answer is no lie, though of no use
	}{
		"honest": {func(t *testing.T) any { return wireAnswer{Found: []peers.Aged{good(t)}} }, true, true},
		"its own time is over": {func(t *testing.T) any {
			old := seal(t, 901, nil, 0, func(b *peers.Beacon) { b.Time = b.Time.Add(-time.Hour) })
			return wireAnswer{Found: []peers.Aged{old, good(t)}}
		}, true, true},
		"too old": {func(t *testing.T) any {
			g := good(t)
			g.Age = (10 * time.Minute).Milliseconds()
			return wireAnswer{Found: []peers.Aged{g}}
		}, false, true},
		"negative age": {func(t *testing.T) any {
			g := good(t)
			g.Age = -1
			return wireAnswer{Found: []peers.Aged{g}}
		}, false, true},
		"one forged": {func(t *testing.T) any {
			f := seal(t, 902, nil, 0, func(*peers.Beacon) {})
			f.Sealed[len(f.Sealed)/2] ^= 1
			return wireAnswer{Found: []peers.Aged{good(t), f}}
		}, false, false},
		"another's name": {func(t *testing.T) any {
			f := seal(t, 903, nil, 0, func(b *peers.Beacon) { b.Peer = peer.ID("x" + b.Peer[1:]) })
			return wireAnswer{Found: []peers.Aged{good(t), f}}
		}, false, false},
		"wrong space": {func(t *testing.T) any {
			f := seal(t, 904, nil, 0, func(b *peers.Beacon) { b.At.Vec = []float64{1, 2, 3} })
			return wireAnswer{Found: []peers.Aged{good(t), f}}
		}, false, false},
		"too many": {func(t *testing.T) any {
			return wireAnswer{Found: slices.Repeat([]peers.Aged{good(t)}, 17)}
		}, false, false},
		"refused":  {func(*testing.T) any { return wireAnswer{Refused: strings.Repeat("no", 100)} }, false, true},
		"nonsense": {func(*testing.T) any { return "nonsense" }, false, false},
		"huge":     {func(*testing.T) any { return strings.Repeat("x", 100<<10) }, false, false},
		"silent":   {func(*testing.T) any { return nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			searcher := start(t, 1, nil, false, set)
			wait := 30 * time.Second
			if name == "silent" {
				wait = 2 * time.Second
			}
			searcher.nearest.Timeout = wait
			liar := start(t, 2, nil, false, set)
			liar.net.Handle(liar.net.Names.Nearest(), wire.Limits{MaxMsg: 4 << 10, Timeout: wait}, func(ctx context.Context, k *wire.Conn) error {
				var q map[int]any
				if err := k.Recv(&q); err != nil {
					return err
				}
				a := c.answer(t)
				if a == nil {
					<-ctx.Done()
					return nil
				}
				return k.Send(a)
			})
			near := seal(t, 2, addrsOf(liar), 1, func(*peers.Beacon) {})
			for i := range 8 {
				if _, err := searcher.peers.Learn(seal(t, int64(100+i), nil, 500+float64(i), func(*peers.Beacon) {})); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := searcher.peers.Learn(near); err != nil {
				t.Fatal(err)
			}
			if !searcher.peers.Directory().Partial() {
				t.Fatal("the directory is not partial")
			}
			target := coords.Proxy{At: coords.Coordinate{Vec: []float64{0, 0}, Height: 1}, Scale: 1}
			found, _, err := searcher.nearest.Nearest(context.Background(), target, 4)
			if err != nil {
				t.Fatal(err)
			}
			isGood := func(b peers.Beacon) bool { return b.At.Vec[0] == 0.5 }
			if got := slices.ContainsFunc(found, isGood); got != c.found {
				t.Errorf("found the good one: %v, want %v", got, c.found)
			}
			for _, b := range found {
				if b.At.Vec[0] < 0.5 {
					t.Errorf("believed in %+v", b)
				}
				if b.Peer == liar.net.Self() && !c.fair {
					t.Error("who answered wrongly was found")
				}
			}
		})
	}
}

// Questions out of bounds are refused, and so are too many.
func TestHostileQuestions(t *testing.T) {
	set := func(c *peers.Config) {}
	a, b := start(t, 1, nil, false, set), start(t, 2, nil, false, set)
	if err := a.net.Host.Connect(context.Background(), peer.AddrInfo{ID: b.net.Self(), Addrs: b.net.Host.Addrs()}); err != nil {
		t.Fatal(err)
	}
	type question struct {
		Target coords.Proxy `cbor:"1,keyasint"`
		K      int          `cbor:"2,keyasint"`
	}
	ask := func(q any) (wireAnswer, error) {
		c, err := a.net.Dial(context.Background(), b.net.Self(), b.net.Names.Nearest(), wire.Limits{MaxMsg: 1 << 16, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		var r wireAnswer
		err = errors.Join(c.Send(q), c.Recv(&r))
		return r, err
	}
	fine := coords.Proxy{At: coords.Coordinate{Vec: []float64{0, 0}}, Scale: 1}
	for name, q := range map[string]question{
		"none":       {fine, 0},
		"many":       {fine, 17},
		"dimensions": {coords.Proxy{At: coords.Coordinate{Vec: make([]float64, 3)}}, 1},
		"not finite": {coords.Proxy{At: coords.Coordinate{Vec: []float64{math.Inf(1), 0}}}, 1},
	} {
		if got, err := ask(q); err != nil || got.Refused == "" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ask(strings.Repeat("x", 5000)); err == nil {
		t.Error("a question of 5 kB was answered")
	}
	busy := 0
	for range 100 {
		if got, err := ask(question{fine, 1}); err == nil && got.Refused == "busy" {
			busy++
		}
	}
	if busy == 0 {
		t.Log("a hundred questions took longer than it takes to be busy")
	}
	if _, _, err := a.nearest.Nearest(context.Background(), fine, 1); !errors.Is(err, nearest.ErrNobody) {
		t.Errorf("alone: %v", err)
	}
	if _, _, err := a.nearest.Nearest(context.Background(), coords.Proxy{}, 1); err == nil {
		t.Error("a target without a place was sought")
	}
}
