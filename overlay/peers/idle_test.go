package peers_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/overlay"
	"peerd/overlay/peers"
)

// TestIdleTraffic measures what a network of real peers on loopback says when
// there is nothing to say: all of it, DHT, gossip and identification included.
//
//	PEERD_IDLE=8,32,100 go test ./overlay/peers -run IdleTraffic -v -timeout 30m
func TestIdleTraffic(t *testing.T) {
	sizes := os.Getenv("PEERD_IDLE")
	if sizes == "" {
		t.Skip("SKIPPED: set PEERD_IDLE to numbers of peers, e.g. 8,32,100, to measure their idle traffic; PEERD_IDLE_FOR is for how long")
	}
	length := 2 * time.Minute
	if text := os.Getenv("PEERD_IDLE_FOR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range strings.Split(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(text, func(t *testing.T) { idle(t, n, length) })
	}
}

const (
	idleWave   = 8
	idleFast   = 3 * time.Second
	idleSettle = 150 * time.Second // at most; the figure shows whether they rest
)

func idle(t *testing.T, n int, length time.Duration) {
	begin := time.Now()
	members := make([]*member, n)
	// They join in waves, and measure a little slower at first, or a small machine
	// does nothing but handshakes and all round trips are noise.
	for i := 0; i < n; i += idleWave {
		wave := min(n, i+idleWave)
		for j := i; j < wave; j++ {
			members[j], _ = startWith(t, int64(j+1), "idle-net-0123456789abcdef", members[0], func(c *peers.Config) { c.Fast = idleFast })
		}
		eventually(t, 5*time.Minute, fmt.Sprintf("%d know all", wave), all(members[:wave], func(m *member) bool {
			return m.peers.Directory().Len() >= min(wave-1, peers.DefaultConfig().MaxPeers)
		}))
	}
	unsettled := 0
	for end := time.Now().Add(idleSettle); ; <-time.After(5 * time.Second) {
		unsettled = 0
		for _, m := range members {
			if m.peers.Coordinate().Error >= peers.DefaultConfig().Settled {
				unsettled++
			}
		}
		if unsettled*20 <= n || time.Now().After(end) {
			break
		}
	}
	<-time.After(20 * time.Second) // what was new is told
	t.Logf("%v after the start the coordinates of %d have not settled", time.Since(begin).Round(time.Second), unsettled)
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
	t.Logf("%d peers, %v of rest: bytes a peer and second, sent and received%s\n  %-50s %8.0f %8.0f",
		n, took.Round(time.Second), table.String(), "all", sent, received)
	if most := 2000.0; n <= 100 && sent+received > most {
		t.Errorf("a peer sends and receives %.0f bytes/s, want at most %.0f", sent+received, most)
	}
}
