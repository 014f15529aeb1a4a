//go:build integration

package peers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay"
	"peerd/overlay/peers"
)

// cuts simulates partitions between members by failing their dials.
type cuts struct {
	mu  sync.Mutex
	cut map[string]bool // by name of the dialer + address
}

// dialer dials for the named member.
type dialer struct {
	cuts *cuts
	name string
}

var errCut = errors.New("no route")

func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	d.cuts.mu.Lock()
	cut := d.cuts.cut[d.name+address]
	d.cuts.mu.Unlock()
	if cut {
		return nil, errCut
	}
	var nd net.Dialer
	return nd.DialContext(ctx, network, address)
}

// separate cuts all connections between two groups of members.
func (c *cuts) separate(t *testing.T, as, bs []*member, names map[*member]string) {
	t.Helper()
	c.mu.Lock()
	for _, a := range as {
		for _, b := range bs {
			c.cut[names[a]+address(t, b)], c.cut[names[b]+address(t, a)] = true, true
		}
	}
	c.mu.Unlock()
	for _, a := range as {
		for _, b := range bs {
			_ = a.net.Host.Network().ClosePeer(b.net.Self())
			_ = b.net.Host.Network().ClosePeer(a.net.Self())
		}
	}
}

func (c *cuts) heal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.cut)
}

func address(t *testing.T, m *member) string {
	t.Helper()
	addr := m.net.Host.Addrs()[0]
	ip, err := addr.ValueForProtocol(ma.P_IP4)
	port, err2 := addr.ValueForProtocol(ma.P_TCP)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(ip, port)
}

// startSeparable starts n connected members without bootstrap peers, with short intervals and
// lifetimes, and waits until their network is complete.
func startSeparable(t *testing.T, n int) ([]*member, *cuts, map[*member]string) {
	t.Helper()
	c := &cuts{cut: map[string]bool{}}
	names := map[*member]string{}
	var members []*member
	for i := range n {
		m := startOne(t, i, c, names)
		members = append(members, m)
		if i > 0 {
			connect(t, m, members[0])
		}
	}
	eventually(t, patience, "the network is complete", complete(members))
	return members, c, names
}

// startOne starts a member that startSeparable may have started.
func startOne(t *testing.T, i int, c *cuts, names map[*member]string) *member {
	t.Helper()
	name := fmt.Sprintf("member %d at ", i)
	m, _ := start(t, int64(i+1), testNetwork, options{
		overlay: func(oc *overlay.Config) {
			oc.TCPDialer = func(ma.Multiaddr) (tcp.ContextDialer, error) {
				return dialer{c, name}, nil
			}
		},
		peers: func(pc *peers.Config) {
			pc.FastInterval, pc.SlowInterval = 200*time.Millisecond, time.Second
			pc.Gap, pc.Interval, pc.TTL = 100*time.Millisecond, time.Second, 6*time.Second
			pc.SyncInterval = 2 * time.Second
		},
	})
	names[m] = name
	return m
}

// Two halves of a partition that have expired each other merge again without bootstrap peers.
func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	members, cuts, names := startSeparable(t, 4)
	left, right := members[:2], members[2:]
	cuts.separate(t, left, right, names)
	knowsHalfOnly := func(half, other []*member) func() bool {
		return all(half, func(m *member) bool {
			for _, o := range other {
				if _, ok := m.peers.Directory().Get(o.net.Self()); ok {
					return false
				}
			}
			return m.peers.Directory().Len() == 1
		})
	}
	eventually(t, time.Minute, "the halves have expired each other", func() bool {
		return knowsHalfOnly(left, right)() && knowsHalfOnly(right, left)()
	})
	cuts.heal()
	begin, stall := time.Now(), stalls(t)
	eventually(t, patience, "all members know each other again", acquainted(members))
	// It takes 50 s if only the DHT finds the other half.
	if took := time.Since(begin); took > 45*time.Second+2*stall() {
		t.Errorf("it took %v, want at most 45 s", took)
	}
}

// Members know of peers that joined on the other side of a partition that they joined there when it
// is over. Who joined just before that has met peers of both sides, and need not know.
func TestJoinsOnBothSides(t *testing.T) {
	t.Parallel()
	patience := time.Minute
	members, cuts, names := startSeparable(t, 4)
	left, right := members[:2], members[2:]
	cuts.separate(t, left, right, names)
	begin := time.Now()
	expired := func(half []*member) func() bool {
		return all(half, func(m *member) bool { return m.peers.Directory().Len() == 1 })
	}
	// Who joins within half a minute of the last sign of life of the others is not known to have
	// joined without them, and these are heard for some seconds more on a busy machine.
	eventually(t, time.Minute, "the halves have expired each other for long",
		func() bool {
			return time.Since(begin) > 45*time.Second && expired(left)() && expired(right)()
		})
	x, y := startOne(t, 4, cuts, names), startOne(t, 5, cuts, names)
	cuts.separate(t, append(left[:2:2], x), append(right[:2:2], y), names)
	connect(t, x, left[0])
	connect(t, y, right[0])
	left, right = append(left[:2:2], x), append(right[:2:2], y)
	eventually(t, patience, "each half knows who joined it", func() bool {
		return acquainted(left)() && acquainted(right)()
	})
	cuts.heal()
	elsewhere := func(half []*member, p *member) func() bool {
		return all(half, func(m *member) bool {
			_, ok := m.peers.JoinedElsewhere(p.net.Self())
			return ok
		})
	}
	eventually(t, patience, "each half knows who joined the other one", func() bool {
		return elsewhere(left[:2], y)() && elsewhere(right[:2], x)()
	})
	for _, m := range left[:2] {
		if joined := m.peers.Joined(y.net.Self(), left[0].net.Self()); !joined && m != left[0] {
			t.Errorf("%s: y has not joined while a member of the left was away", names[m])
		}
		if m.peers.Joined(y.net.Self(), x.net.Self()) {
			t.Errorf("%s: y has joined while x was away", names[m])
		}
	}
}

// A peer that this one cannot reach, but others can, is not suspected.
func TestHelpersVouch(t *testing.T) {
	t.Parallel()
	unlessStalled(t, func(t *testing.T) (fault string) {
		members, cuts, names := startSeparable(t, 4)
		a, d := members[0], members[3]
		cuts.separate(t, members[:1], members[3:], names)
		// Longer than the TTL, so that others must have relayed their beacons.
		alive := func(of, p *member) bool { return of.peers.Directory().Alive(p.net.Self()) }
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			if !alive(a, d) || !alive(d, a) {
				return "a peer suspects another that all other peers reach"
			}
			<-time.After(10 * time.Millisecond)
		}
		return ""
	})
}

// A peer that has lost its network suspects no other peer.
func TestCutOffPeerSuspectsNoPeer(t *testing.T) {
	t.Parallel()
	unlessStalled(t, func(t *testing.T) (fault string) {
		members, cuts, names := startSeparable(t, 5)
		lone, rest := members[0], members[1:]
		cuts.separate(t, members[:1], rest, names)
		suspects := func() (n int) {
			for _, m := range rest {
				if lone.peers.Directory().Suspected(m.net.Self()) {
					n++
				}
			}
			return n
		}
		othersMissIt := all(rest, func(m *member) bool {
			return m.peers.Directory().Len() == len(rest)-1
		})
		eventually(t, time.Minute, "the others miss it, and it has expired them", func() bool {
			if n := suspects(); n > 0 {
				fault = fmt.Sprintf("the peer that is cut off suspects %d of %d peers, want 0",
					n, len(rest))
			}
			return fault != "" || lone.peers.Directory().Len() == 0 && othersMissIt()
		})
		if fault == "" {
			cuts.heal()
			eventually(t, time.Minute, "all members know each other again", acquainted(members))
		}
		return fault
	})
}

// unlessStalled runs a scenario in which no peer may seem silent. It repeats it if there was a
// fault while this process was stalled, because then all peers were silent. A peer is
// suspected after some seconds of silence, so stalls below half a second do not matter.
func unlessStalled(t *testing.T, scenario func(t *testing.T) (fault string)) {
	t.Helper()
	const maxStall, tries = 500 * time.Millisecond, 5
	for range tries {
		fault, longest := "", func() time.Duration { return 0 }
		t.Run("", func(t *testing.T) {
			longest = stalls(t)
			fault = scenario(t)
		})
		switch stall := longest(); {
		case fault == "" || t.Failed():
			return
		case stall < maxStall:
			t.Fatal(fault)
		}
		t.Logf("%s, while this process was stalled for %v", fault, longest())
	}
	t.Skipf("SKIPPED: this process was stalled in each of %d tries", tries)
}

// stalls measures the longest stall of this process until the end of the test.
func stalls(t *testing.T) (longest func() time.Duration) {
	t.Helper()
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			most.Store(max(most.Load(), int64(time.Since(last))))
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
	})
	return func() time.Duration { return time.Duration(most.Load()) }
}
