//go:build integration

package peers_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay"
	"peerd/overlay/peers"
)

var (
	idleSizes = flag.String("idle-sizes", "",
		"comma-separated network sizes of TestIdleTraffic, such as 8,32,100; skipped without it")
	idleTime = flag.Duration("idle-time", 2*time.Minute, "how long TestIdleTraffic measures")
)

const (
	idleWave     = 8
	idleInterval = 3 * time.Second
	idleConverge = 150 * time.Second // at most
)

// TestIdleTraffic measures the traffic of a network of real peers on loopback while nothing
// changes, including DHT, gossip and identification.
//
//	go test ./overlay/peers -tags integration -run IdleTraffic -v -timeout 30m -idle-sizes 8,32
func TestIdleTraffic(t *testing.T) {
	if *idleSizes == "" {
		t.Skip("SKIPPED: -idle-sizes is not set")
	}
	for text := range strings.SplitSeq(*idleSizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { measureIdle(t, n, *idleTime) })
	}
}

func measureIdle(t *testing.T, n int, length time.Duration) {
	begin := time.Now()
	members := make([]*member, n)
	// They join in waves and measure more slowly at first. Otherwise a small machine would be
	// busy with handshakes and all round trips would be noise.
	for i := 0; i < n; i += idleWave {
		wave := min(n, i+idleWave)
		for j := i; j < wave; j++ {
			members[j], _ = start(t, int64(j+1), "idle-net-0123456789abcdef", options{
				boot:  members[0],
				peers: func(c *peers.Config) { c.FastInterval = idleInterval },
			})
		}
		eventually(t, 5*time.Minute, fmt.Sprintf("%d peers know all others", wave),
			all(members[:wave], func(m *member) bool {
				return m.peers.Directory().Len() >= min(wave-1, peers.DefaultConfig().MaxPeers)
			}))
	}
	var unconverged int
	for end := time.Now().Add(idleConverge); ; <-time.After(5 * time.Second) {
		unconverged = 0
		for _, m := range members {
			if m.peers.Coordinate().Error >= peers.DefaultConfig().SettledError {
				unconverged++
			}
		}
		if unconverged*20 <= n || time.Now().After(end) {
			break
		}
	}
	<-time.After(20 * time.Second) // until changes have spread
	t.Logf("%v after the start, %d coordinates have not converged",
		time.Since(begin).Round(time.Second), unconverged)
	sum := func() (all map[protocol.ID]overlay.Bytes) {
		all = map[protocol.ID]overlay.Bytes{}
		for _, m := range members {
			for p, b := range m.net.Traffic() {
				s := all[p]
				s.Sent, s.Received = s.Sent+b.Sent, s.Received+b.Received
				all[p] = s
			}
		}
		return all
	}
	before, from := sum(), time.Now()
	<-time.After(length)
	after, took := sum(), time.Since(from)

	perPeer := float64(n) * took.Seconds()
	var table strings.Builder
	var sent, received float64
	for _, p := range slices.Sorted(maps.Keys(after)) {
		out := float64(after[p].Sent-before[p].Sent) / perPeer
		in := float64(after[p].Received-before[p].Received) / perPeer
		sent, received = sent+out, received+in
		fmt.Fprintf(&table, "\n  %-50s %8.0f %8.0f", p, out, in)
	}
	t.Logf("%d peers, idle for %v: bytes per peer and second, sent and received%s\n"+
		"  %-50s %8.0f %8.0f",
		n, took.Round(time.Second), table.String(), "all", sent, received)
	if most := 2000.0; n <= 100 && sent+received > most {
		t.Errorf("traffic per peer = %.0f bytes/s, want at most %.0f", sent+received, most)
	}
}
