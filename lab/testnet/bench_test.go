package testnet

import (
	"fmt"
	"testing"
)

// BenchmarkSeeds runs the testnet of the README with several seeds. Only its reported metrics
// are meaningful, all of them ratios or counts; run it with -benchtime 1x.
func BenchmarkSeeds(b *testing.B) {
	for _, seed := range []uint64{1, 2, 3, 4, 5, 7} {
		b.Run(fmt.Sprintf("seed=%d", seed), func(b *testing.B) {
			for b.Loop() {
				r, err := Run(b.Context(), Options{Peers: 8, Sites: 24, Pages: 3000, Seed: seed,
					Strategy: "proxy"})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(r.Coverage, "coverage")
				b.ReportMetric(r.Overlap, "overlap")
				b.ReportMetric(float64(r.PolitenessViolations), "impolite")
				b.ReportMetric(r.Download.P90/r.Random.P90, "p90-all/random")
				b.ReportMetric(r.Assigned.P90/r.Oracle.P90, "p90-assigned/oracle")
				b.ReportMetric(r.OptimalShare, "optimal")
				b.ReportMetric(r.NearOptimalShare, "near-optimal")
				b.ReportMetric(r.EstimationsPerSubnet, "estimations/subnet")
				b.ReportMetric(r.WallSeconds, "wall-s")
			}
		})
	}
}
