package peers_test

import (
	"bufio"
	"errors"
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
	"go.uber.org/goleak"

	"peerd/overlay/peers"
)

// victimEnv makes this program a peer of its own, one that can be killed: the
// seed of its key, "@", and the address to join by.
const victimEnv = "PEERD_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		os.Exit(m.Run()) // of TestBeVictim alone
	}
	goleak.VerifyTestMain(m)
}

// TestBeVictim is the other process.
func TestBeVictim(t *testing.T) {
	seed, boot, ok := strings.Cut(os.Getenv(victimEnv), "@")
	if !ok {
		t.Skip("SKIPPED: only runs as another test's process")
	}
	n, err := strconv.ParseInt(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	info, err := peer.AddrInfoFromString(boot)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := startAt(t, n, "test-net", []peer.AddrInfo{*info}, nil)
	fmt.Printf("victim %s\n", v.net.Self())
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent ends, whichever way
}

// victim starts a peer in a process of its own.
func victim(t *testing.T, seed int64, boot *member) (id peer.ID, signal func(syscall.Signal)) {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestBeVictim$", "-test.v")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d@%s/p2p/%s", victimEnv, seed, boot.net.Host.Addrs()[0], boot.net.Self()))
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
		_ = cmd.Wait() // killed
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

// TestKilledPeerIsNoCandidate measures how long a killed or stopped peer looks
// alive to the others.
//
//	PEERD_KILL=8,32 go test ./overlay/peers -run Killed -v
func TestKilledPeerIsNoCandidate(t *testing.T) {
	t.Parallel()
	sizes := os.Getenv("PEERD_KILL")
	if sizes == "" {
		sizes = "6"
	}
	for _, text := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { killOne(t, n) })
	}
}

func killOne(t *testing.T, n int) {
	var members []*member
	for i := range n - 1 {
		var boot []peer.AddrInfo
		if i > 0 {
			boot = infos(members[:1])
		}
		m, _ := startAt(t, int64(i+1), "test-net", boot, nil)
		members = append(members, m)
	}
	id, signal := victim(t, 999, members[0])
	alive := func(want bool) func() bool {
		return all(members, func(m *member) bool { return m.peers.Directory().Alive(id) == want })
	}
	eventually(t, 2*time.Minute, "all know all", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == n-1 && len(m.net.Host.Network().Peers()) == n-1
	}))
	eventually(t, time.Minute, "all have met the victim", all(members, func(m *member) bool {
		_, ok := m.peers.RTT(id)
		return ok && m.peers.Directory().Alive(id)
	}))

	signal(syscall.SIGSTOP)
	eventually(t, 100*time.Second, "nobody takes the stopped one for alive", alive(false))
	eventually(t, time.Minute, "nobody else is suspect", all(members, func(m *member) bool { return m.peers.Directory().Len() == n-2 }))
	signal(syscall.SIGCONT)
	eventually(t, time.Minute, "all take it for alive when it goes on", alive(true))
	signal(syscall.SIGKILL)
	eventually(t, time.Minute, "nobody takes the killed one for alive", alive(false))
}

// When more than half stop at once, the others find out who, as they have each
// other to confirm it.
func TestHalfStops(t *testing.T) {
	t.Parallel()
	const remain, stop = 3, 4
	var members []*member
	for i := range remain {
		var boot []peer.AddrInfo
		if i > 0 {
			boot = infos(members[:1])
		}
		m, _ := startAt(t, int64(i+1), "test-net", boot, nil)
		members = append(members, m)
	}
	ids, signals := make([]peer.ID, stop), make([]func(syscall.Signal), stop)
	for i := range stop {
		ids[i], signals[i] = victim(t, int64(900+i), members[0])
	}
	eventually(t, time.Minute, "all are connected to all", all(members, func(m *member) bool {
		return m.peers.Directory().Len() == remain+stop-1 && len(m.net.Host.Network().Peers()) == remain+stop-1
	}))
	for _, signal := range signals {
		signal(syscall.SIGSTOP)
	}
	eventually(t, 80*time.Second, "exactly those that have stopped are suspect", all(members, func(m *member) bool {
		for _, id := range ids {
			if !m.peers.Directory().Suspected(id) {
				return false
			}
		}
		return m.peers.Directory().Len() == remain-1
	}))
}

// Where not all are connected to all, those who have no connection to a peer
// that dies hear of it from others, and see for themselves.
func TestWordOfSuspects(t *testing.T) {
	t.Parallel()
	var members []*member
	few := func(c *peers.Config) {
		c.MaxConns, c.Partners, c.Slow, c.Sync = 2, 2, time.Second, 2*time.Second
	}
	const n = 8
	for i := range n {
		m, _ := startOn(t, int64(i+1), "test-net", nil, nil, few)
		if members = append(members, m); i > 0 {
			meet(t, m, members[i-1])
		}
	}
	id, signal := victim(t, 999, members[0])
	eventually(t, time.Minute, "all know the victim", all(members, func(m *member) bool { return m.peers.Directory().Alive(id) }))
	for _, m := range members[1:] {
		_ = m.net.Host.Network().ClosePeer(id)
	}
	strangers := 0
	for _, m := range members {
		if len(m.net.Host.Network().ConnsToPeer(id)) == 0 {
			strangers++
		}
	}
	signal(syscall.SIGKILL)
	eventually(t, time.Minute, "nobody takes it for alive", all(members, func(m *member) bool { return !m.peers.Directory().Alive(id) }))
	t.Logf("%d of %d were not connected to it", strangers, n)
}
