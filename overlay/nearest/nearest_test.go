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

// member is a peer with a fixed coordinate.
type member struct {
	key     crypto.PrivKey
	net     *overlay.Net
	peers   *peers.Service
	nearest *nearest.Service
}

// fixedEstimator returns an estimator with a random coordinate that hardly moves, because
// round trips on loopback would give all peers the same one.
func fixedEstimator(t testing.TB, seed uint64) *coords.Estimator {
	t.Helper()
	const samples = 200
	cfg := coords.DefaultConfig()
	cfg.Dimensions, cfg.MaxNeighbours, cfg.MoveMax, cfg.GravityRho = 2, samples, 1e-9, 1e9
	cfg.Rand = rand.New(rand.NewPCG(seed, 1))
	est := coords.NewEstimator(cfg)
	at := []float64{cfg.Rand.Float64() * 200, cfg.Rand.Float64() * 200}
	for i := range samples {
		corner := []float64{float64(i % 4 % 2 * 200), float64(i % 4 / 2 * 200)}
		anchor := coords.Coordinate{Vec: corner, Height: 1, Error: 0.1}
		rtt := math.Hypot(at[0]-anchor.Vec[0], at[1]-anchor.Vec[1]) + 2
		if err := est.Observe(fmt.Sprint("anchor ", i%4), anchor,
			time.Duration(rtt*float64(time.Millisecond))); err != nil &&
			!errors.Is(err, coords.ErrOutlier) {
			t.Fatal(err)
		}
	}
	return est
}

// start makes a peer that joins boot, if not nil. If run is set it runs until the test ends;
// otherwise it only answers requests.
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
	pc.Host, pc.Key, pc.Estimator = m.net.Host, key, fixedEstimator(t, uint64(seed))
	pc.Topic, pc.Protocol = m.net.Names.Beacons(), m.net.Names.Coords()
	pc.HeartbeatProtocol = m.net.Names.Heartbeat()
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

// seal returns a signed beacon of a peer at x, which need not exist.
func seal(
	t *testing.T, seed int64, addrs []string, x float64, change func(*peers.Beacon),
) peers.RelayedBeacon {
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
	return peers.RelayedBeacon{Sealed: raw}
}

// wireResponse is the response as it is encoded.
type wireResponse struct {
	Found   []peers.RelayedBeacon `cbor:"1,keyasint,omitempty"`
	Refused string                `cbor:"2,keyasint,omitempty"`
}

// A searcher knows eight distant peers, which do not exist, and one near the target, which
// sends invalid responses. The search does not use them.
func TestInvalidResponses(t *testing.T) {
	set := func(c *peers.Config) { c.MaxPeers = 8 }
	addrsOf := func(m *member) (texts []string) {
		for _, a := range m.net.Host.Addrs() {
			texts = append(texts, a.String())
		}
		return texts
	}
	honest := start(t, 3, nil, false, set)
	good := func(t *testing.T) peers.RelayedBeacon {
		return seal(t, 3, addrsOf(honest), 0.5, func(*peers.Beacon) {})
	}
	for name, c := range map[string]struct {
		response func(*testing.T) any
		found    bool // the honest peer
		valid    bool // the response is useless but valid
	}{
		"honest": {func(t *testing.T) any {
			return wireResponse{Found: []peers.RelayedBeacon{good(t)}}
		}, true, true},
		"made up": {func(t *testing.T) any { // correctly signed
			f := seal(t, 905, []string{"/ip4/127.0.0.1/tcp/9"}, 0.3, func(*peers.Beacon) {})
			return wireResponse{Found: []peers.RelayedBeacon{f, good(t)}}
		}, true, true},
		"expired beacon": {func(t *testing.T) any {
			old := seal(t, 901, nil, 0, func(b *peers.Beacon) { b.Time = b.Time.Add(-time.Hour) })
			return wireResponse{Found: []peers.RelayedBeacon{old, good(t)}}
		}, true, true},
		"too old": {func(t *testing.T) any {
			g := good(t)
			g.Age = (10 * time.Minute).Milliseconds()
			return wireResponse{Found: []peers.RelayedBeacon{g}}
		}, false, true},
		"negative age": {func(t *testing.T) any {
			g := good(t)
			g.Age = -1
			return wireResponse{Found: []peers.RelayedBeacon{g}}
		}, false, true},
		"one forged": {func(t *testing.T) any {
			f := seal(t, 902, nil, 0, func(*peers.Beacon) {})
			f.Sealed[len(f.Sealed)/2] ^= 1
			return wireResponse{Found: []peers.RelayedBeacon{good(t), f}}
		}, false, false},
		"wrong dimensions": {func(t *testing.T) any {
			f := seal(t, 904, nil, 0, func(b *peers.Beacon) { b.At.Vec = []float64{1, 2, 3} })
			return wireResponse{Found: []peers.RelayedBeacon{good(t), f}}
		}, false, false},
		"too many": {func(t *testing.T) any {
			return wireResponse{Found: slices.Repeat([]peers.RelayedBeacon{good(t)}, 17)}
		}, false, false},
		"refused": {func(*testing.T) any {
			return wireResponse{Refused: strings.Repeat("no", 100)}
		}, false, true},
		"nonsense": {func(*testing.T) any { return "nonsense" }, false, false},
		"huge":     {func(*testing.T) any { return strings.Repeat("x", 100<<10) }, false, false},
		"silent":   {func(*testing.T) any { return nil }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			searcher := start(t, 1, nil, false, set)
			timeout := 30 * time.Second
			if name == "silent" {
				timeout = 500 * time.Millisecond
			}
			searcher.nearest.Timeout = timeout
			liar := start(t, 2, nil, false, set)
			limits := wire.Limits{MaxMsg: 4 << 10, Timeout: 30 * time.Second}
			liar.net.Handle(liar.net.Names.Nearest(), limits,
				func(ctx context.Context, k *wire.Conn) error {
					var q map[int]any
					if err := k.Recv(&q); err != nil {
						return err
					}
					a := c.response(t)
					if a == nil {
						<-ctx.Done()
						return nil
					}
					return k.Send(a)
				})
			near := seal(t, 2, addrsOf(liar), 1, func(*peers.Beacon) {})
			for i := range 8 {
				far := seal(t, int64(100+i), nil, 500+float64(i), func(*peers.Beacon) {})
				if _, err := searcher.peers.Directory().Put(far.Sealed); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := searcher.peers.Directory().Put(near.Sealed); err != nil {
				t.Fatal(err)
			}
			searcher.peers.Directory().Pin(liar.net.Self())
			if !searcher.peers.Directory().Partial() {
				t.Fatal("Partial() = false, want true")
			}
			target := coords.Proxy{At: coords.Coordinate{Vec: []float64{0, 0}, Height: 1}, Scale: 1}
			found, _, err := searcher.nearest.Nearest(context.Background(), target, 4)
			if err != nil {
				t.Fatal(err)
			}
			isGood := func(b peers.Beacon) bool { return b.At.Vec[0] == 0.5 }
			if got := slices.ContainsFunc(found, isGood); got != c.found {
				t.Errorf("found the honest peer: %v, want %v", got, c.found)
			}
			for _, b := range found {
				if b.At.Vec[0] < 0.5 {
					t.Errorf("found %+v, which does not exist", b)
				}
				if b.Peer == liar.net.Self() && !c.valid {
					t.Error("found the peer that sent an invalid response")
				}
			}
		})
	}
}

// Invalid requests are refused, and so are too many.
func TestInvalidRequests(t *testing.T) {
	set := func(c *peers.Config) {}
	a, b := start(t, 1, nil, false, set), start(t, 2, nil, false, set)
	info := peer.AddrInfo{ID: b.net.Self(), Addrs: b.net.Host.Addrs()}
	if err := a.net.Host.Connect(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	type request struct {
		Target coords.Proxy `cbor:"1,keyasint"`
		K      int          `cbor:"2,keyasint"`
	}
	ask := func(q any) (wireResponse, error) {
		c, err := wire.Dial(context.Background(), a.net.Host, b.net.Self(),
			wire.Limits{MaxMsg: 1 << 16, Timeout: time.Minute}, b.net.Names.Nearest())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Reset()
		var r wireResponse
		err = errors.Join(c.Send(q), c.Recv(&r))
		return r, err
	}
	fine := coords.Proxy{At: coords.Coordinate{Vec: []float64{0, 0}}, Scale: 1}
	for name, q := range map[string]request{
		"none":       {fine, 0},
		"many":       {fine, 17},
		"dimensions": {coords.Proxy{At: coords.Coordinate{Vec: make([]float64, 3)}}, 1},
		"not finite": {coords.Proxy{At: coords.Coordinate{Vec: []float64{math.Inf(1), 0}}}, 1},
	} {
		if got, err := ask(q); err != nil || got.Refused == "" {
			t.Errorf("%s: response = %+v, %v, want a refusal", name, got, err)
		}
	}
	if _, err := ask(strings.Repeat("x", 5000)); err == nil {
		t.Error("a request of 5 kB was answered, want an error")
	}
	busy := 0
	for range 100 {
		if got, err := ask(request{fine, 1}); err == nil && got.Refused == "busy" {
			busy++
		}
	}
	if busy == 0 {
		t.Log("no request was refused: this machine is slower than the limit")
	}
	if _, _, err := a.nearest.Nearest(t.Context(), fine, 1); !errors.Is(err, nearest.ErrNoPeers) {
		t.Errorf("Nearest with no known peers: %v, want ErrNoPeers", err)
	}
	if _, _, err := a.nearest.Nearest(t.Context(), coords.Proxy{}, 1); err == nil {
		t.Error("Nearest of a target without coordinate = nil, want an error")
	}
}
