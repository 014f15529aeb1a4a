//go:build integration

package testnet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/coords/assign"
	"peerd/lab/emulate"
	"peerd/node"
	"peerd/node/config"
	"peerd/store"
)

var quiet = flag.Bool("quiet", false,
	"judge where measured times move subnets; for a machine that does nothing else")

// A small network crawls everything once and obeys politeness and robots.txt with every
// strategy. Several networks run at once, because they mostly wait; all at once would be too
// many peers for two cores.
func TestSmallNetwork(t *testing.T) {
	strategies := config.Strategies
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
			if r.PagesExpected != 120 || r.PagesFetched != 120 || r.Coverage != 1 ||
				r.Overlap != 0 {
				t.Errorf("%d of %d pages, coverage %v, overlap %v; want all of 120 once",
					r.PagesFetched, r.PagesExpected, r.Coverage, r.Overlap)
			}
			if r.PolitenessViolations+r.RobotsViolations > 0 {
				t.Errorf("%d violations of politeness, %d of robots.txt", r.PolitenessViolations,
					r.RobotsViolations)
			}
			if r.EstimationsPerSubnet > 12 {
				t.Errorf("%v estimations a subnet, want at most 12", r.EstimationsPerSubnet)
			}
			// A random choice would reach a quarter. The chosen peer must also become the owner.
			if s == "proxy" && *quiet && r.NearOptimalShare < 0.6 {
				t.Errorf("%v of the subnets are at a peer about as near as the nearest, want most",
					r.NearOptimalShare)
			}
			// The peers differ only in their place, which the database knows.
			if s == "geo" && r.OptimalShare < 0.8 {
				t.Errorf("%v of the subnets are at the nearest peer, want nearly all",
					r.OptimalShare)
			}
			if r.Strategy != s || r.Peers != 4 || r.Sites != 6 || r.Seed != 7 {
				t.Errorf("report of another testnet: %+v", r)
			}
		})
	}
}

// An interrupted scenario removes its directory.
func TestScenarioInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err := Run(ctx, Options{Peers: 3, Sites: 3, Seed: 1, Strategy: "proxy", Scenario: "load"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Run() = %v, want %v", err, context.DeadlineExceeded)
	}
}

// probeAll is a strategy that has all candidates connect to a subnet and chooses the peer with
// the fastest connection. It ignores other measurements.
type probeAll struct {
	quickest *atomic.Int64 // fastest connection of all
}

func (probeAll) Name() string { return "probe-all" }

func (s probeAll) Next(e assign.Evidence) (assign.Step, error) {
	took := map[string]float64{}
	for _, x := range e.Samples {
		if x.FirstByte != 0 || x.Bytes != 0 {
			continue
		}
		if took[x.Peer] = float64(x.Connect); x.Failed {
			took[x.Peer] = math.Inf(1)
		} else if q := s.quickest.Load(); q == 0 || x.Connect < time.Duration(q) {
			s.quickest.Store(int64(x.Connect))
		}
	}
	best := e.Self
	for _, c := range e.Candidates {
		t, ok := took[c.ID]
		switch {
		case e.Exclude[c.ID]:
		case !ok && e.CanProbe:
			return assign.Step{Probe: c.ID, Via: assign.ViaConnect}, nil
		case ok && (took[best] == 0 || t < took[best]):
			best = c.ID
		}
	}
	return assign.Step{Choice: best}, nil
}

// known waits until every peer knows all subnets that are owned.
func known(ctx context.Context, nodes []*node.Node) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		owned, least, sent := 0, math.MaxInt, int64(0)
		for _, n := range nodes {
			s := n.Status()
			owned += s.SubnetsOwned
			least = min(least, s.OwnerMap.Subnets)
			sent += s.OwnerMap.Sent
		}
		switch {
		case least == owned && sent >= int64(owned):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d subnets owned, a peer knows of %d, %d announced", owned, least,
				sent)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// inSeveralSubnets returns the number of sites with addresses in several subnets.
func inSeveralSubnets(t *testing.T, o Options) (n int) {
	world, err := o.world()
	if err != nil {
		t.Fatal(err)
	}
	for _, addrs := range emulate.NewLayout(world, o.Peers, o.Sites, o.Seed).SiteAddrs {
		home := store.SubnetOf(addrs[0])
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !home.Contains(a) }) {
			n++
		}
	}
	return n
}

// The peers count the probes of a strategy, and the sites count the extra requests. With
// probeAll, which connects once per peer to each subnet, both are known; the connection for
// robots.txt is that of the owner. The owner of a subnet also connects once to each host with
// addresses in several subnets, before it decides that the host belongs there. The owner map of
// each peer comes to contain all subnets. These connections fetch no page, violate no politeness
// gap, and take as long as the emulated distances.
func TestProbesAreCounted(t *testing.T) {
	const peers, sites = 4, 6
	const nearest = 3 * time.Millisecond // a connection on loopback takes a tenth of one
	all := probeAll{new(atomic.Int64)}
	connects := 0
	o := Options{
		Peers: peers, Sites: sites, Pages: 120, Seed: 7, Strategy: "keep", strategy: all,
		Matrix: "testdata/near.tsv",
		after: func(ctx context.Context, nodes []*node.Node) error {
			err := known(ctx, nodes)
			for _, n := range nodes {
				connects += int(n.Status().Probes.Connects)
			}
			return err
		},
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Table())
	if r.Coverage != 1 || r.Overlap != 0 || r.PolitenessViolations != 0 {
		t.Errorf("coverage %v, overlap %v, %d violations of politeness", r.Coverage, r.Overlap,
			r.PolitenessViolations)
	}
	if r.ProbesPerSubnet != peers {
		t.Errorf("%v probes per subnet, want %d", r.ProbesPerSubnet, peers)
	}
	want := (peers-1)*len(r.Subnets) + inSeveralSubnets(t, o)
	if r.ExtraRequests != want || r.EstimationsPerSubnet != 0 {
		t.Errorf("%d extra requests, want %d; %v pages by others a subnet, want none",
			r.ExtraRequests, want, r.EstimationsPerSubnet)
	}
	if connects != r.ExtraRequests {
		t.Errorf("the peers counted %d connections, the sites %d", connects, r.ExtraRequests)
	}
	t.Logf("the quickest connection took %v", time.Duration(all.quickest.Load()))
	if quick := time.Duration(all.quickest.Load()); quick < nearest || quick > time.Second {
		t.Errorf("the quickest connection took %v, and no server is nearer than %v", quick, nearest)
	}
}
