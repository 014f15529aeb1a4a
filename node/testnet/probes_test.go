package testnet

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"peerd/coords/assign"
	"peerd/node"
)

// everybody is the brute force: all candidates connect, the quickest gets the
// subnet. What was measured otherwise does not count.
type everybody struct {
	quickest *atomic.Int64 // connection of all
}

func (everybody) Name() string { return "everybody" }

func (s everybody) Next(e assign.Evidence) (assign.Step, error) {
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

// known waits until every peer has heard of all subnets that are owned.
func known(ctx context.Context, nodes []*node.Node) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		owned, least, sent := 0, math.MaxInt, int64(0)
		for _, n := range nodes {
			s := n.Status()
			owned += s.SubnetsOwned
			least = min(least, s.Atlas.Subnets)
			sent += s.Atlas.Sent
		}
		switch {
		case least == owned && sent >= int64(owned):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%d subnets owned, a peer knows of %d, %d announced", owned, least, sent)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// What a strategy has measured is counted by the peers, and what it cost the
// sites by the sites: with everybody connecting once to each subnet, the
// figures are known. The atlas of each peer comes to hold all subnets. No page is fetched for it, no pause is broken, and the
// emulated distances tell who is near.
func TestProbesAreCounted(t *testing.T) {
	const peers, sites = 4, 6
	const nearest = 3 * time.Millisecond // a connection on loopback takes a tenth of one
	all := everybody{new(atomic.Int64)}
	r, err := Run(t.Context(), Options{
		Peers: peers, Sites: sites, Pages: 120, Seed: 7, Strategy: "keep", strategy: all, Matrix: "testdata/near.tsv",
		after: known,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", r.Table())
	if r.Coverage != 1 || r.Overlap != 0 || r.PolitenessViolations != 0 {
		t.Errorf("coverage %v, overlap %v, %d violations of politeness", r.Coverage, r.Overlap, r.PolitenessViolations)
	}
	if r.ProbesPerSubnet != peers+1 { // and a robots.txt, which this strategy makes nothing of
		t.Errorf("%v probes a subnet, want %d", r.ProbesPerSubnet, peers+1)
	}
	if want := peers * len(r.Subnets); r.ExtraRequests != want || r.EstimationsPerSubnet != 0 {
		t.Errorf("%d extra requests, want %d; %v pages by others a subnet, want none", r.ExtraRequests, want, r.EstimationsPerSubnet)
	}
	t.Logf("the quickest connection took %v", time.Duration(all.quickest.Load()))
	if quick := time.Duration(all.quickest.Load()); quick < nearest || quick > time.Second {
		t.Errorf("the quickest connection took %v, and no server is nearer than %v", quick, nearest)
	}
}
