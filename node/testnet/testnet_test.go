package testnet

import (
	"log/slog"
	"testing"

	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"peerd/node/config"
)

// TestMain hushes libp2p, which complains that emulated connections have no TCP
// keep-alive.
func TestMain(m *testing.M) {
	gologshim.SetDefaultHandler(slog.DiscardHandler)
	goleak.VerifyTestMain(m)
}

// A small network crawls everything once and keeps the rules, whatever the
// strategy. Several run at once, for most of the time is waiting; all would be
// too many peers for two cores to find each other in time.
func TestSmallNetwork(t *testing.T) {
	strategies := config.Strategies
	if testing.Short() {
		strategies = strategies[:1]
	}
	reports, errs := make([]Report, len(strategies)), make([]error, len(strategies))
	var all errgroup.Group
	all.SetLimit(4)
	for i, s := range strategies {
		all.Go(func() error {
			reports[i], errs[i] = Run(t.Context(), Options{
				Peers: 4, Sites: 6, Pages: 120, Seed: 7, Strategy: s, Matrix: "testdata/near.tsv",
			})
			return nil
		})
	}
	_ = all.Wait()
	for i, s := range strategies {
		t.Run(s, func(t *testing.T) {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			r := reports[i]
			t.Logf("\n%s", r.Table())
			if r.PagesExpected != 120 || r.PagesFetched != 120 || r.Coverage != 1 || r.Overlap != 0 {
				t.Errorf("%d of %d pages, coverage %v, overlap %v; want all of 120 once", r.PagesFetched, r.PagesExpected, r.Coverage, r.Overlap)
			}
			if r.PolitenessViolations+r.RobotsViolations > 0 {
				t.Errorf("%d violations of politeness, %d of robots.txt", r.PolitenessViolations, r.RobotsViolations)
			}
			if r.EstimationsPerSubnet > 12 {
				t.Errorf("%v estimations a subnet, want at most 12", r.EstimationsPerSubnet)
			}
			// Chance would be a quarter; whoever was chosen must also get it.
			if s == "proxy" && r.NearOptimalShare < 0.6 {
				t.Errorf("%v of the subnets are at a peer about as near as the nearest, want most", r.NearOptimalShare)
			}
			// These peers differ by place alone, and the data base knows the places.
			if s == "geo" && r.OptimalShare < 0.8 {
				t.Errorf("%v of the subnets are at the nearest peer, want nearly all", r.OptimalShare)
			}
			if r.Strategy != s || r.Peers != 4 || r.Sites != 6 || r.Seed != 7 {
				t.Errorf("the report is of something else: %+v", r)
			}
		})
	}
}
