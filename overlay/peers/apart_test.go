package peers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay"
	"peerd/overlay/peers"
)

// cables are what lies between members: between some of them they can be cut.
type cables struct {
	mu  sync.Mutex
	cut map[string]bool // address dialled, and the dialer's name
}

type cable struct {
	all  *cables
	name string
}

var errCut = errors.New("no route")

func (c cable) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c.all.mu.Lock()
	cut := c.all.cut[c.name+address]
	c.all.mu.Unlock()
	if cut {
		return nil, errCut
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// named is a change to a member's network: its dials can be cut.
func (c *cables) named(name string) func(*overlay.Config) {
	return func(cfg *overlay.Config) {
		cfg.TCPDialer = func(ma.Multiaddr) (tcp.ContextDialer, error) { return cable{c, name}, nil }
	}
}

// part cuts what lies between two members, both ways.
func (c *cables) part(t *testing.T, as, bs []*member, names map[*member]string) {
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

func (c *cables) heal() {
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

// quick makes peers speak often, and live as much shorter.
func quick(c *peers.Config) {
	c.Fast, c.Gap = 200*time.Millisecond, 100*time.Millisecond
	c.Interval, c.TTL, c.Slow, c.Sync = time.Second, 6*time.Second, time.Second, 2*time.Second
}

// meet connects two members.
func meet(t *testing.T, a, b *member) {
	t.Helper()
	eventually(t, time.Minute, "they meet", func() bool {
		return a.net.Host.Connect(t.Context(), infos([]*member{b})[0]) == nil
	})
}

// complete reports whether all members know, and have in their routing tables,
// all others: as far as these go, where members are many. A bucket holds
// Replicas, and half of all belong into the first.
func complete(members []*member) func() bool {
	least := min(len(members)-1, overlay.DefaultConfig().Replicas)
	return all(members, func(m *member) bool {
		return m.peers.Directory().Len() == len(members)-1 && m.net.DHT.RoutingTable().Size() >= least
	})
}

// Two halves that have forgotten each other find together again, though nobody
// has a bootstrap peer.
func TestHalvesMend(t *testing.T) {
	t.Parallel()
	wires := &cables{cut: map[string]bool{}}
	names := map[*member]string{}
	var members []*member
	for i, name := range []string{"a", "b", "c", "d"} {
		m, _ := startOn(t, int64(i+1), "test-net", nil, wires.named(name), quick)
		members, names[m] = append(members, m), name
		if i > 0 {
			meet(t, m, members[0])
		}
	}
	eventually(t, time.Minute, "all know all", complete(members))
	left, right := members[:2], members[2:]
	wires.part(t, left, right, names)
	apart := func(ours, theirs []*member) func() bool {
		return all(ours, func(m *member) bool {
			for _, o := range theirs {
				if _, ok := m.peers.Directory().Get(o.net.Self()); ok {
					return false
				}
			}
			return m.peers.Directory().Len() == 1
		})
	}
	eventually(t, time.Minute, "the halves have forgotten each other", func() bool {
		return apart(left, right)() && apart(right, left)()
	})
	wires.heal()
	eventually(t, 45*time.Second, "all know all again", complete(members)) // 50 s if only the DHT finds them
}

// Two networks that never met become one by a single connection. PEERD_MERGE is
// how large each is.
func TestNetworksMerge(t *testing.T) {
	n := 5
	if text := os.Getenv("PEERD_MERGE"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	var members []*member
	for i := range 2 * n {
		var boot []peer.AddrInfo
		if i%n > 0 {
			boot = infos(members[i/n*n:][:1])
		}
		m, _ := startAt(t, int64(i+1), "test-net", boot, nil)
		members = append(members, m)
	}
	eventually(t, 2*time.Minute, "each network is complete", func() bool {
		return complete(members[:n])() && complete(members[n:])()
	})
	meet(t, members[1], members[n+2])
	eventually(t, 2*time.Minute, "they are one", complete(members))
	for i, m := range members {
		theirs := 0
		for k, o := range members {
			if k/n != i/n && m.net.DHT.RoutingTable().Find(o.net.Self()) != "" {
				theirs++
			}
		}
		if theirs < min(n, 3) {
			t.Errorf("%d has %d of the other network in its routing table", i, theirs)
		}
	}
}

// A peer that comes back after long knows many that are gone, and one that is
// there; the others know it by an address that it has left.
func TestRejoinsByStalePeers(t *testing.T) {
	first, _ := startAt(t, 1, "test-net", nil, nil)
	second, _ := startAt(t, 2, "test-net", infos([]*member{first}), nil)
	third, stop := startAt(t, 3, "test-net", infos([]*member{first}), nil)
	members := []*member{first, second, third}
	eventually(t, time.Minute, "all know all", complete(members))
	old := third.net.Host.Addrs()[0]
	stop()
	eventually(t, time.Minute, "it is missed", all(members[:2], func(m *member) bool { return m.peers.Directory().Len() == 1 }))

	back, _ := startAt(t, 3, "test-net", nil, func(c *overlay.Config) {
		for i := range int64(99) {
			key := keyOf(t, 1000+i)
			id, err := peer.IDFromPrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			c.Known = append(c.Known, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{old}})
		}
		good := infos([]*member{second})[0]
		good.Addrs = append([]ma.Multiaddr{old}, good.Addrs...)
		c.Known = append(c.Known, good)
	})
	members[2] = back
	eventually(t, time.Minute, "all know all, at the new address", func() bool {
		b, ok := first.peers.Directory().Get(back.net.Self())
		return ok && len(b.Addrs) > 0 && b.Addrs[0] == back.net.Host.Addrs()[0].String() && complete(members)()
	})
}

// A peer that this one cannot reach, but others can, is not suspect.
func TestHelpersVouch(t *testing.T) { t.Parallel(); calmly(t, helpersVouch) }

func helpersVouch(t *testing.T) (fault string) {
	wires := &cables{cut: map[string]bool{}}
	names := map[*member]string{}
	var members []*member
	for i, name := range []string{"a", "b", "c", "d"} {
		m, _ := startOn(t, int64(i+1), "test-net", nil, wires.named(name), quick)
		members, names[m] = append(members, m), name
		if i > 0 {
			meet(t, m, members[0])
		}
	}
	eventually(t, time.Minute, "all know all", complete(members))
	a, d := members[0], members[3]
	wires.part(t, members[:1], members[3:], names)
	// As long as its beacons take to expire, which others must have passed on.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		if !a.peers.Directory().Alive(d.net.Self()) || !d.peers.Directory().Alive(a.net.Self()) {
			return "one takes the other for dead, which all others reach"
		}
	}
	return ""
}

// A peer whose network is gone takes nobody for dead before his time.
func TestCutOffPeerSuspectsNobody(t *testing.T) { t.Parallel(); calmly(t, cutOff) }

func cutOff(t *testing.T) (fault string) {
	wires := &cables{cut: map[string]bool{}}
	names := map[*member]string{}
	var members []*member
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		m, _ := startOn(t, int64(i+1), "test-net", nil, wires.named(name), quick)
		members, names[m] = append(members, m), name
		if i > 0 {
			meet(t, m, members[0])
		}
	}
	eventually(t, time.Minute, "all know all", complete(members))
	lone, rest := members[0], members[1:]
	wires.part(t, members[:1], rest, names)
	suspects := func() (n int) {
		for _, m := range rest {
			if lone.peers.Directory().Suspected(m.net.Self()) {
				n++
			}
		}
		return n
	}
	eventually(t, time.Minute, "all others miss it, and it has forgotten all", func() bool {
		if n := suspects(); n > 0 {
			fault = fmt.Sprintf("%d of %d are suspect", n, len(rest))
		}
		return fault != "" || lone.peers.Directory().Len() == 0 && all(rest, func(m *member) bool { return m.peers.Directory().Len() == len(rest)-1 })()
	})
	if fault == "" {
		wires.heal()
		eventually(t, time.Minute, "all know all again", complete(members))
	}
	return fault
}

// calmly runs a scenario in which nobody may be taken for silent, again if the
// fault was that this process stood still: then all were silent. Who is not heard
// for some seconds is suspect, so half of one here and there makes no fault.
func calmly(t *testing.T, scenario func(t *testing.T) (fault string)) {
	t.Helper()
	const still, tries = 500 * time.Millisecond, 5
	for range tries {
		var most atomic.Int64 // how long it stood still at a time
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
		fault := ""
		t.Run("", func(t *testing.T) { fault = scenario(t) })
		close(stop)
		<-stopped
		stood := time.Duration(most.Load())
		switch {
		case fault == "" || t.Failed():
			return
		case stood < still:
			t.Fatal(fault)
		}
		t.Logf("%s, as this process stood still for %v", fault, stood)
	}
	t.Skipf("SKIPPED: %d times this process stood still; nothing can be said", tries)
}
