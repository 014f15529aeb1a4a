package replica

import (
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"peerd/store"
)

var many = flag.Int("many", 0,
	"number of subnets to follow on one link, to measure the cost; skipped without it")

// TestMany measures: go test ./overlay/replica -run Many$ -v -args -many 10000
func TestMany(t *testing.T) {
	t.Parallel()
	n := *many
	if n == 0 {
		t.Skip("skipped without -many")
	}
	ha, hb := hostPair(t)
	slow := func(c *Config) {
		c.BatchDelay, c.SyncEvery = 200*time.Millisecond, 500*time.Millisecond
		c.Heartbeat = 5 * time.Second
	}
	a := startMember(t, ha, open(t, t.TempDir()), slow)
	b := startMember(t, hb, open(t, t.TempDir()), slow)
	var all []netip.Prefix
	for i := range n {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 0}), 24)
		all = append(all, p)
		addHost(t, a.db, p, fmt.Sprintf("h%d.test", i), 1)
	}
	before, began := heap(), time.Now()
	for _, p := range all {
		follow(t, a, p, b)
	}
	for _, p := range all {
		if err := a.Await(t.Context(), p, hb.ID()); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	t.Logf("%d subnets in sync in %v: %.0f/s", n, took.Round(time.Millisecond),
		float64(n)/took.Seconds())
	t.Logf("heap: %d bytes a subnet, both sides and their stores", (heap()-before)/int64(n))
	began = time.Now()
	a.sources.queueGrown()
	grown := time.Since(began)
	began = time.Now()
	a.sources.trim()
	t.Logf("a look for what has grown: %v, for what can be trimmed: %v", grown, time.Since(began))
	update(t, a.db, func(tx *store.Tx) error {
		_, err := tx.Push("h0.test", entry("h0.test", 7), 0)
		return err
	})
	began = time.Now()
	flush(t, a, all[0])
	t.Logf("a flush of one: %v", time.Since(began))
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
