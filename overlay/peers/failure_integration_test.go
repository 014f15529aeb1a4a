//go:build integration

package peers_test

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay"
	"peerd/overlay/peers"
)

var (
	victimArgs = flag.String("victim", "",
		"used by tests to start TestVictim as a process: seed of its key, @, address to join by")
	killSizes = flag.String("kill-sizes", "6",
		"comma-separated network sizes of TestKilledPeerIsDetected")
)

// TestVictim is a peer in a process of its own that other tests stop and kill.
func TestVictim(t *testing.T) {
	seed, boot, ok := strings.Cut(*victimArgs, "@")
	if !ok {
		t.Skip("SKIPPED: runs only as a process of other tests")
	}
	n, err := strconv.ParseInt(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	info, err := peer.AddrInfoFromString(boot)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := start(t, n, testNetwork, options{overlay: func(c *overlay.Config) {
		c.Bootstrap = []peer.AddrInfo{*info}
	}})
	fmt.Printf("victim %s\n", v.net.Self())
	_, _ = os.Stdin.Read(make([]byte, 1)) // returns when the parent process ends
}

// startVictim starts a peer in a process of its own.
func startVictim(
	t *testing.T, seed int64, boot *member,
) (id peer.ID, signal func(syscall.Signal)) {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestVictim$", "-test.v",
		fmt.Sprintf("-victim=%d@%s/p2p/%s", seed, boot.net.Host.Addrs()[0], boot.net.Self()))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // reports the kill
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "victim "); ok {
			if id, err = peer.Decode(text); err != nil {
				t.Fatal(err)
			}
			return id, func(sig syscall.Signal) {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Fatal(errors.Join(errors.New("the victim did not start"), lines.Err()))
	return "", nil
}

// startMembers starts n members that join through the first.
func startMembers(t *testing.T, n int) []*member {
	t.Helper()
	var members []*member
	for i := range n {
		var o options
		if i > 0 {
			o.boot = members[0]
		}
		m, _ := start(t, int64(i+1), testNetwork, o)
		members = append(members, m)
	}
	return members
}

// TestKilledPeerIsDetected measures how long other peers treat a stopped or killed peer as
// alive.
func TestKilledPeerIsDetected(t *testing.T) {
	t.Parallel()
	for text := range strings.SplitSeq(*killSizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { killOne(t, n) })
	}
}

func killOne(t *testing.T, n int) {
	members := startMembers(t, n-1)
	id, signal := startVictim(t, 999, members[0])
	alive := func(want bool) func() bool {
		return all(members, func(m *member) bool { return m.peers.Directory().Alive(id) == want })
	}
	eventually(t, 2*time.Minute, "all peers know all others", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-1 && len(m.net.Host.Network().Peers()) == n-1
	}))
	eventually(t, time.Minute, "all have measured the victim", all(members, func(m *member) bool {
		_, ok := m.peers.RTT(id)
		return ok && m.peers.Directory().Alive(id)
	}))

	signal(syscall.SIGSTOP)
	eventually(t, 100*time.Second, "the stopped peer is not alive", alive(false))
	eventually(t, time.Minute, "no other peer is suspect", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-2
	}))
	signal(syscall.SIGCONT)
	eventually(t, time.Minute, "the continued peer is alive", alive(true))
	signal(syscall.SIGKILL)
	eventually(t, time.Minute, "the killed peer is not alive", alive(false))
}

// If more than half of all peers stop at once, the others detect which, because they confirm
// it to each other.
func TestHalfStops(t *testing.T) {
	t.Parallel()
	const remain, stop = 3, 4
	members := startMembers(t, remain)
	ids, signals := make([]peer.ID, stop), make([]func(syscall.Signal), stop)
	for i := range stop {
		ids[i], signals[i] = startVictim(t, int64(900+i), members[0])
	}
	eventually(t, time.Minute, "all are connected to all", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == remain+stop-1 &&
			len(m.net.Host.Network().Peers()) == remain+stop-1
	}))
	for _, signal := range signals {
		signal(syscall.SIGSTOP)
	}
	eventually(t, 80*time.Second, "exactly the stopped peers are suspect",
		all(members, func(m *member) bool {
			for _, id := range ids {
				if !m.peers.Directory().Suspected(id) {
					return false
				}
			}
			return m.peers.Directory().Len() == remain-1
		}))
}

// Where not all peers are connected to all others, peers without a connection to a peer that
// fails receive suspicions and check it themselves.
func TestSuspicionsSpread(t *testing.T) {
	t.Parallel()
	const n = 8
	var members []*member
	for i := range n {
		m, _ := start(t, int64(i+1), testNetwork, options{peers: func(c *peers.Config) {
			c.MaxConns, c.Partners = 2, 2
			c.SlowInterval, c.SyncInterval = time.Second, 2*time.Second
		}})
		if members = append(members, m); i > 0 {
			connect(t, m, members[i-1])
		}
	}
	id, signal := startVictim(t, 999, members[0])
	// No peer checks one that is known by hearsay only.
	eventually(t, time.Minute, "all have heard the victim", all(members, func(m *member) bool {
		return m.peers.Directory().Alive(id) && !m.peers.Directory().Hearsay(id)
	}))
	for _, m := range members[1:] {
		_ = m.net.Host.Network().ClosePeer(id)
	}
	unconnected := 0
	for _, m := range members {
		if len(m.net.Host.Network().ConnsToPeer(id)) == 0 {
			unconnected++
		}
	}
	signal(syscall.SIGKILL)
	eventually(t, time.Minute, "the killed peer is not alive", all(members, func(m *member) bool {
		return !m.peers.Directory().Alive(id)
	}))
	t.Logf("%d of %d were not connected to it", unconnected, n)
}
