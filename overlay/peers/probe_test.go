package peers

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/coords"
	"peerd/overlay"
	"peerd/overlay/wire"
)

// newService returns a Service on loopback that is not running, and the network of another
// peer.
func newService(t testing.TB) (s *Service, other *overlay.Net) {
	t.Helper()
	nets := make([]*overlay.Net, 2)
	for i := range nets {
		c := overlay.DefaultConfig()
		c.Key, _ = identity(t, int64(100+i))
		c.Network, c.Listen = "test-net", []string{"/ip4/127.0.0.1/tcp/0"}
		var err error
		if nets[i], err = overlay.New(c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nets[i].Close() }) // the test is over
	}
	ec := coords.DefaultConfig()
	ec.Rand = rand.New(rand.NewPCG(1, 1))
	est := coords.NewEstimator(ec)
	c := DefaultConfig()
	c.Host, c.Estimator, c.Topic, c.Protocol = nets[0].Host, est, testTopic, nets[0].Names.Coords()
	c.HeartbeatProtocol = nets[0].Names.Heartbeat()
	c.Key, _ = identity(t, 100)
	var err error
	if s, err = New(c); err != nil {
		t.Fatal(err)
	}
	return s, nets[1]
}

// startService runs a Service without bootstrap peers. The other peer is connected to it.
func startService(t *testing.T) (s *Service, other *overlay.Net) {
	t.Helper()
	s, other = newService(t)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	if err := other.Host.Connect(t.Context(), peer.AddrInfo{ID: s.cfg.Host.ID(),
		Addrs: s.cfg.Host.Addrs()}); err != nil {
		t.Fatal(err)
	}
	return s, other
}

// Other peers cannot make this one dial unknown peers, or dial often.
func TestIndirectProbesAreBounded(t *testing.T) {
	s, other := startService(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int64
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			dials.Add(1)
			_ = c.Close() // not a peer
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-accepting })
	addr, err := manet.FromNetAddr(ln.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(p peer.ID) (answer probeReply) {
		c, err := wire.Dial(t.Context(), other.Host, s.cfg.Host.ID(),
			wire.Limits{MaxMsg: maxReply, Timeout: time.Minute}, s.cfg.Protocol)
		if err == nil {
			err = errors.Join(c.Send(hello{Probe: &probeRequest{Target: p}}), c.Recv(&answer))
			c.End(err)
		}
		if err != nil {
			t.Error(err)
		}
		return answer
	}

	key, target := identity(t, 1)
	s.cfg.Host.Peerstore().AddAddrs(target, []ma.Multiaddr{addr}, time.Hour)
	if a := ask(target); a.Reached || a.Busy || dials.Load() != 0 {
		t.Errorf("probe of an unknown peer: %+v with %d dials, want neither", a, dials.Load())
	}
	// As if dialing had failed before, so that only indirect probes make this peer dial.
	s.states.mu.Lock()
	s.states.of(target).dialAt = time.Now().Add(time.Hour)
	s.states.mu.Unlock()
	b := testBeacon(target, 1, time.Now())
	b.Addrs, b.At = []string{addr.String()}, s.Coordinate()
	if _, err := s.dir.Put(mustSeal(t, key, b)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var busy, failed atomic.Int64
	var g sync.WaitGroup
	for range 3 * indirectRate.Burst {
		g.Go(func() {
			switch a := ask(target); {
			case a.Reached:
				t.Error("reply says that the target was reached")
			case a.Busy:
				busy.Add(1)
			default:
				failed.Add(1)
			}
		})
	}
	g.Wait()
	refilled := float64(indirectRate.PerSecond) * time.Since(begin).Seconds()
	allowed := indirectRate.Burst + 1 + int(refilled)
	if n := failed.Load(); n == 0 || n > int64(allowed) {
		t.Errorf("%d probes made and %d refused, want 1 to %d made", n, busy.Load(), allowed)
	}
	if most := 2 + int64(time.Since(begin)/failureTTL); dials.Load() > most ||
		dials.Load() == 0 {
		t.Errorf("%d dials in %v, want 1 to %d", dials.Load(), time.Since(begin), most)
	}
	if a := ask(s.cfg.Host.ID()); !a.Reached || a.Latest == nil {
		t.Errorf("probe of the peer itself: %+v, want it reached with a beacon", a)
	}
}

// No peer can make this one answer without bound.
func TestProbesAreBounded(t *testing.T) {
	s, other := startService(t)
	begin, answered := time.Now(), 0
	const most = 64 + 8 // at once, and while they are sent
	for range 3 * most {
		var answer probeReply
		if err := wire.Ask(t.Context(), other.Host, s.cfg.Host.ID(),
			wire.Limits{MaxMsg: maxReply, Timeout: time.Minute}, s.cfg.Protocol,
			hello{Probe: &probeRequest{}}, &answer); err == nil && answer.Reached {
			answered++
		}
	}
	if more := 8 * int(time.Since(begin)/time.Second); answered < 64 || answered > most+more {
		t.Errorf("%d probes answered in %v, want 64 to %d", answered, time.Since(begin), most+more)
	}
}

// Any message is either handled or rejected.
func FuzzMessages(f *testing.F) {
	key, id := identity(f, 1)
	now := time.Now()
	sealed, err := Seal(key, testTopic, testBeacon(id, 1, now))
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []any{
		hello{Probe: &probeRequest{}}, hello{Probe: &probeRequest{Target: id}},
		probeReply{Reached: true, Latest: &RelayedBeacon{Sealed: sealed, Age: 5}},
		done{Suspects: []suspicion{{Peer: id, Age: 5}}},
		welcome{Suspects: make([]suspicion, maxSuspicions+1)},
		heartbeat{Beacon: sealed, Payload: []byte{1}, Suspects: []suspicion{{Peer: id, Age: 5}}},
		heartbeat{Suspects: make([]suspicion, maxSuspicions+1)},
	} {
		raw, err := wire.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	s, _ := newService(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var h heartbeat
		if wire.Unmarshal(raw, &h) == nil && s.receiveHeartbeat(id, h) == nil &&
			(len(h.Payload) > MaxPayload || len(h.Suspects) > maxSuspicions) {
			t.Errorf("accepted a heartbeat of %d bytes with %d suspicions", len(h.Payload),
				len(h.Suspects))
		}
		d := testDirectory("", 8)
		d.now = now
		if _, err := d.Put(sealed); err != nil {
			t.Fatal(err)
		}
		var hi hello
		if wire.Unmarshal(raw, &hi) == nil && hi.Probe != nil {
			d.Get(hi.Probe.Target)
		}
		var reply probeReply
		if wire.Unmarshal(raw, &reply) == nil && reply.Latest != nil {
			_, _ = d.put(reply.Latest.Sealed, reply.Latest.age(), hearsay{}) // usually rejected
		}
		var bye done
		if wire.Unmarshal(raw, &bye) == nil {
			for _, b := range bye.Suspects {
				if d.isNewSuspicion(b) && b.Peer != id {
					t.Errorf("isNewSuspicion(%+v) = true for an unknown peer", b)
				}
			}
		}
		if !d.Alive(id) {
			t.Error("a suspicion of another peer made a peer suspect")
		}
	})
}
