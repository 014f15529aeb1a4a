package overlay

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// logLines collects what a Net logs, of all levels.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// with returns the lines that contain text.
func (l *logLines) with(text string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			lines = append(lines, line)
		}
	}
	return lines
}

// startLogged starts a peer that logs to the returned lines.
func startLogged(
	t *testing.T, seed int64, networkID string, boot ...peer.AddrInfo,
) (*Net, *logLines) {
	t.Helper()
	lines := &logLines{}
	cfg := testConfig(t, seed, networkID)
	cfg.Bootstrap, cfg.Logger = boot, lines.logger()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	return n, lines
}

func infoOf(n *Net) peer.AddrInfo { return peer.AddrInfo{ID: n.Self(), Addrs: n.Host.Addrs()} }

// A peer that bootstraps from a peer of another network is told so once, as is the other
// one; they disconnect, and the address is tried again only much later.
func TestBootstrapFromOtherNetwork(t *testing.T) {
	t.Parallel()
	ours, ourLog := startLogged(t, 1, "net-a")
	theirs, theirLog := startLogged(t, 2, "net-b", infoOf(ours))
	const warning = "level=WARN msg=\"peer belongs to another network; check --profile"
	eventually(t, "both peers log it", func() bool {
		return len(ourLog.with(warning)) > 0 && len(theirLog.with(warning)) > 0
	})
	eventually(t, "the attempt is recorded", func() bool {
		return strings.Contains(theirs.Bootstrap()[0].LastError, "belongs to net-a")
	})
	eventually(t, "disconnected", func() bool {
		return !connected(theirs, ours) && !connected(ours, theirs)
	})
	state := theirs.Bootstrap()[0]
	if state.Connected || time.Until(state.NextAttempt) < refusedRetryMin/4 {
		t.Errorf("Bootstrap() = %+v, want not connected, and a long pause", state)
	}
	time.Sleep(3 * joinRetryMin) // the pause after an ordinary failure
	for peer, lines := range map[string]*logLines{"net-a": ourLog, "net-b": theirLog} {
		if got := lines.with(warning); len(got) != 1 {
			t.Errorf("%s logged %d warnings, want 1:\n%s", peer, len(got), strings.Join(got, ""))
		}
	}
	if got := theirLog.with("it belongs to net-a"); len(got) > 1 {
		t.Errorf("net-b tried %d times, want at most once:\n%s", len(got), strings.Join(got, ""))
	}
	a, b := ours.DHT.RoutingTable().Size(), theirs.DHT.RoutingTable().Size()
	if a != 0 || b != 0 {
		t.Errorf("routing tables have %d and %d entries, want none", a, b)
	}
}

// The pause before a refused peer is tried again grows, and ends when it is a member.
func TestRefusals(t *testing.T) {
	var r refusals
	now := time.Unix(1_800_000_000, 0)
	var last time.Duration
	for i := range 8 {
		r.add("p", now)
		d := r.next("p").Sub(now)
		if d < refusedRetryMin*3/4 || d > refusedRetryMax*5/4 || i > 0 && i < 4 && d <= last {
			t.Errorf("pause %d is %v after %v", i+1, d, last)
		}
		last = d
	}
	if last < refusedRetryMax*3/4 {
		t.Errorf("the last pause is %v, want about %v", last, refusedRetryMax)
	}
	if ok, first := r.begin("p"); !ok || !first {
		t.Errorf("begin = %v, %v, want true, true", ok, first)
	}
	if ok, _ := r.begin("p"); ok {
		t.Error("begin = true while the connection is being closed")
	}
	r.end("p")
	if ok, first := r.begin("p"); !ok || first {
		t.Errorf("begin = %v, %v the second time, want true, false", ok, first)
	}
	r.remove("p")
	if at := r.next("p"); !at.IsZero() {
		t.Errorf("next = %v for a member, want the zero time", at)
	}
	for i := range 2 * maxRefused {
		r.add(lostPeerInfo(i).ID, now)
	}
	if len(r.all) != maxRefused {
		t.Errorf("%d peers are remembered, want %d", len(r.all), maxRefused)
	}
	logged := 0
	for i := range 2 * maxRefused {
		if _, first := r.begin(lostPeerInfo(i).ID); first {
			logged++
		}
	}
	if logged < maxWarnings-1 || logged > 2*maxWarnings {
		t.Errorf("%d of %d peers are logged, want %d", logged, 2*maxRefused, maxWarnings)
	}
}

// Only what can be the name of a network is taken for one.
func TestNamesOfOtherNetworks(t *testing.T) {
	t.Parallel()
	n := newNet(t, 1, "net-a")
	for i, name := range []string{"net-b", "net-a", "", "net\nb", strings.Repeat("b", 5000)} {
		p := lostPeerInfo(i).ID
		proto := protocol.ID("/peerd/" + name + dhtSuffix)
		if err := n.Host.Peerstore().AddProtocols(p, proto); err != nil {
			t.Fatal(err)
		}
		want := ""
		if name == "net-b" {
			want = name
		}
		if got := n.otherNetwork(p); got != want {
			t.Errorf("network %.20q, want %q", got, want)
		}
	}
}
