package sim_test

import (
	"context"
	"crypto/rand"
	"fmt"
	mrand "math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/lab/sim/fabric"
	"peerd/overlay"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

// station is one peer of a small in-memory network, without a crawler.
type station struct {
	net   *overlay.Net
	peers *peers.Service
	host  *fabric.Host
	stop  func()
}

const stationProtocol = "/reach-test/1"

func startStation(t *testing.T, f *fabric.Fabric, i int, boot []peer.AddrInfo) *station {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrFrom4([4]byte{10, 20, byte(i), 1})
	s := &station{host: f.Up(addr)}
	c := overlay.DefaultConfig()
	c.Key, c.Network, c.Bootstrap = key, "reach-test", boot
	c.Listen, c.TransportOptions = []string{fmt.Sprintf("/ip4/%s/tcp/4101", addr)},
		fabric.Options(s.host)
	if s.net, err = overlay.New(c); err != nil {
		t.Fatal(err)
	}
	ec := coords.DefaultConfig()
	ec.Rand = mrand.New(mrand.NewPCG(uint64(i), 7))
	est := coords.NewEstimator(ec)
	pc := peers.DefaultConfig()
	pc.Host, pc.Key, pc.Estimator = s.net.Host, key, est
	pc.Topic, pc.Protocol = s.net.Names.Beacons(), s.net.Names.Coords()
	pc.HeartbeatProtocol = s.net.Names.Heartbeat()
	if s.peers, err = peers.New(pc); err != nil {
		t.Fatal(err)
	}
	s.net.Host.SetStreamHandler(stationProtocol, func(st network.Stream) {
		_, _ = st.Write([]byte{1})
		_ = st.Close()
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- s.net.Run(ctx) }()
	go func() { ended <- s.peers.Run(ctx) }()
	s.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		_ = s.net.Close() // a killed station returns errors
	}
	return s
}

// findOut returns how long the first of five peers treats a dead peer as alive. If talk
// is true, it sends a request to the dead peer once a second.
func findOut(t *testing.T, talk bool) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		f := fabric.New(func(_, _ netip.Addr) time.Duration { return 20 * time.Millisecond })
		var all []*station
		var boot []peer.AddrInfo
		for i := range 5 {
			s := startStation(t, f, i, boot)
			boot = []peer.AddrInfo{{ID: s.net.Self(), Addrs: s.net.Host.Addrs()}}
			all = append(all, s)
		}
		defer func() {
			for _, s := range all {
				s.stop()
			}
		}()
		me, victim := all[0], all[4]
		for begin := time.Now(); me.peers.Directory().Len() < 4; time.Sleep(time.Second) {
			if time.Since(begin) > 5*time.Minute {
				t.Fatal("peers did not find each other within 5 min")
			}
		}
		time.Sleep(2 * time.Minute) // measurements become rare
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := peers.MonitorHost(me.net.Host, me.peers)
		victim.host.Kill(fabric.Silent)
		begin := time.Now()
		for me.peers.Directory().Alive(victim.net.Self()) && time.Since(begin) < 5*time.Minute {
			if talk {
				go func() {
					c, err := wire.Dial(ctx, h, victim.net.Self(),
						wire.Limits{MaxMsg: 10, Timeout: 20 * time.Second}, stationProtocol)
					if err == nil {
						var x byte
						c.End(c.Recv(&x))
					}
				}()
			}
			time.Sleep(time.Second)
		}
		took = time.Since(begin)
		for _, s := range all[1:4] {
			if !me.peers.Directory().Alive(s.net.Self()) {
				t.Errorf("Alive(%s) = false for a running peer", s.net.Self())
			}
		}
	})
	return took
}

// A peer that sends requests to a dead peer detects its failure long before the peers
// that only wait for its beacons do.
func TestTalkFindsTheDead(t *testing.T) {
	idle, talking := findOut(t, false), findOut(t, true)
	t.Logf("detected a dead peer after %v, with requests after %v", idle, talking)
	if talking > 12*time.Second { // virtual time; 15 to 35 s without requests
		t.Errorf("detected a dead peer after %v of requests, want at most 12s", talking)
	}
}
