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

// unrun is a Service on loopback that does nothing yet, and the Net of another
// peer.
func unrun(t *testing.T) (s *Service, other *overlay.Net) {
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
		t.Cleanup(func() { _ = nets[i].Close() }) // a test's end
	}
	ec := coords.DefaultConfig()
	ec.Rand = rand.New(rand.NewPCG(1, 1))
	est, err := coords.NewEstimator(ec)
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Host, c.Estimator, c.Topic, c.Protocol = nets[0].Host, est, testTopic, nets[0].Names.Coords()
	c.Key, _ = identity(t, 100)
	if s, err = New(c); err != nil {
		t.Fatal(err)
	}
	return s, nets[1]
}

// lonely runs a Service that joins nobody; the other peer is connected to it.
func lonely(t *testing.T) (s *Service, other *overlay.Net) {
	t.Helper()
	s, other = unrun(t)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	if err := other.Host.Connect(t.Context(), peer.AddrInfo{ID: s.cfg.Host.ID(), Addrs: s.cfg.Host.Addrs()}); err != nil {
		t.Fatal(err)
	}
	return s, other
}

// Nobody can have this peer dial whom it does not know, or dial much.
func TestFavoursAreBounded(t *testing.T) {
	s, other := lonely(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var dialled atomic.Int64
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = c.Close() // whoever lives there is no peer
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-accepting })
	addr, err := manet.FromNetAddr(ln.Addr())
	if err != nil {
		t.Fatal(err)
	}
	question := func(p peer.ID) (answer said) {
		c, err := other.Dial(t.Context(), s.cfg.Host.ID(), s.cfg.Protocol, wire.Limits{MaxMsg: maxReply, Timeout: 10 * time.Second})
		if err == nil {
			err = errors.Join(c.Send(hello{Ask: &ask{Target: p}}), c.Recv(&answer))
			c.End(err)
		}
		if err != nil {
			t.Error(err)
		}
		return answer
	}

	key, target := identity(t, 1)
	s.cfg.Host.Peerstore().AddAddrs(target, []ma.Multiaddr{addr}, time.Hour)
	if a := question(target); a.Reached || a.Busy || dialled.Load() != 0 {
		t.Errorf("of a stranger: %+v, %d dials", a, dialled.Load())
	}
	// As if others had dialled it in vain already, so that only those who ask
	// make this peer dial.
	s.mu.Lock()
	s.link(target).dialAt = time.Now().Add(time.Hour)
	s.mu.Unlock()
	b := testBeacon(target, 1, time.Now())
	b.Addrs, b.At = []string{addr.String()}, s.Coordinate()
	if _, err := s.dir.Put(mustSeal(t, key, b)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var busy, failed atomic.Int64
	var g sync.WaitGroup
	for range 4 * favourRate.AtOnce {
		g.Go(func() {
			switch a := question(target); {
			case a.Reached:
				t.Error("reached")
			case a.Busy:
				busy.Add(1)
			default:
				failed.Add(1)
			}
		})
	}
	g.Wait()
	if busy.Load() < int64(favourRate.AtOnce) || failed.Load() == 0 {
		t.Errorf("%d refused and %d tried, want at most %d of those at once", busy.Load(), failed.Load(), favourRate.AtOnce)
	}
	if most := 2 + int64(time.Since(begin)/badFor); dialled.Load() > most || dialled.Load() == 0 {
		t.Errorf("%d dials in %v, want 1 to %d", dialled.Load(), time.Since(begin), most)
	}
	if a := question(s.cfg.Host.ID()); !a.Reached || a.Latest == nil {
		t.Errorf("of itself: %+v", a)
	}
}

// What is said of third peers is taken or refused, whatever it is.
func FuzzAsk(f *testing.F) {
	key, id := identity(f, 1)
	now := time.Now()
	sealed, err := Seal(key, testTopic, testBeacon(id, 1, now))
	if err != nil {
		f.Fatal(err)
	}
	for _, m := range []any{
		hello{Ask: &ask{}}, hello{Ask: &ask{Target: id}}, said{Reached: true, Latest: &Aged{Sealed: sealed, Age: 5}},
		done{Doubts: []doubt{{Peer: id, Age: 5}}}, welcome{Doubts: make([]doubt, maxDoubts+1)},
	} {
		raw, err := wire.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := newDirectory("", 8)
		d.now = now
		if _, err := d.Put(sealed); err != nil {
			t.Fatal(err)
		}
		var hi hello
		if wire.Unmarshal(raw, &hi) == nil && hi.Ask != nil {
			d.Get(hi.Ask.Target)
		}
		var reply said
		if wire.Unmarshal(raw, &reply) == nil && reply.Latest != nil {
			_, _ = d.PutAged(reply.Latest.Sealed, reply.Latest.age()) // mostly nonsense
		}
		var bye done
		if wire.Unmarshal(raw, &bye) == nil {
			for _, b := range bye.Doubts {
				if d.news(b) && b.Peer != id {
					t.Errorf("news of a stranger: %+v", b)
				}
			}
		}
		if !d.Alive(id) {
			t.Error("words alone made a peer suspect")
		}
	})
}
