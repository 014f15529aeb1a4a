//go:build integration

package testnet

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"peerd/coords/assign"
)

var balance = flag.Uint64("balance", 0,
	"run TestBalance with the seeds 1 to `n`, eight minutes each, on an otherwise idle machine")

// Eight equal peers, each with one request at a time, and forty sites, all 40 ms apart: the sites
// permit more requests than the peers can make. The crawl ends earlier than if peers see no waiting
// times, and none as equally near, and a page takes about as long. The means over the seeds are
// judged.
func TestBalance(t *testing.T) {
	if *balance == 0 {
		t.Skip("takes eight minutes a seed; -balance gives their number")
	}
	cfg := assign.DefaultProxyConfig()
	cfg.Tie = 0
	plain, err := assign.NewProxy(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const places = 40
	var all strings.Builder
	for i := range places {
		row := slices.Repeat([]string{"40"}, places)
		row[i] = "0"
		all.WriteString(strings.Join(row, "\t") + "\n")
	}
	matrix := filepath.Join(t.TempDir(), "equal.tsv")
	if err := os.WriteFile(matrix, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var sooner, slower, deviation float64
	for seed := uint64(1); seed <= *balance; seed++ {
		o := Options{Peers: 8, Sites: places, Pages: 4000, Seed: seed, Strategy: "proxy",
			Matrix: matrix, workers: 1}
		with, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		o.strategy, o.ignoreWaits = plain, true
		without, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("seed %d: %.0f s instead of %.0f s, p90 %.0f ms instead of %.0f ms, "+
			"deviation of pages over their mean %.2f instead of %.2f", seed, with.CrawlSeconds,
			without.CrawlSeconds, with.Download.P90, without.Download.P90, with.Balance,
			without.Balance)
		if with.Coverage < 1 || without.Coverage < 1 {
			t.Errorf("coverage %v and %v, want 1", with.Coverage, without.Coverage)
		}
		sooner += with.CrawlSeconds / without.CrawlSeconds / float64(*balance)
		slower += with.Download.P90 / without.Download.P90 / float64(*balance)
		deviation += with.Balance / float64(*balance)
	}
	t.Logf("means: %.2f of the time, p90 %.2f of that without, deviation %.2f", sooner, slower,
		deviation)
	if sooner > .8 || slower > 1.1 {
		t.Error("want at most .8 of the time, and page times of at most 1.1")
	}
}
