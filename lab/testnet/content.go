package testnet

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"peerd/internal/order"
	"peerd/lab/emulate"
)

// ContentNetworks is the part of a report about sites behind content networks.
type ContentNetworks struct {
	Networks int `json:"networks"`
	Sites    int `json:"sites"`
	// Download and Oracle are those of the pages of these sites. For the oracle each peer uses
	// the edges that its own resolver returns.
	Download emulate.Times `json:"download_ms"`
	Oracle   emulate.Times `json:"oracle_ms"`
	// Edges are those that were asked, the busiest first; Idle is the number of the others.
	Edges []Edge `json:"edges"`
	Idle  int    `json:"idle_edges"`
}

// Edge is what an edge of a content network was asked.
type Edge struct {
	Addr     string `json:"addr"`
	City     string `json:"city"`
	Hosts    int    `json:"hosts"`
	Requests int    `json:"requests"`
}

// contentNetworks returns the part of the report, and nil if no site is behind a content network.
func (t *run) contentNetworks(in emulate.Input) *ContentNetworks {
	if len(t.layout.Networks) == 0 {
		return nil
	}
	c := &ContentNetworks{Networks: len(t.layout.Networks)}
	behind := map[string]bool{}
	for _, s := range t.web.Sites() {
		if _, ok := t.layout.Behind(s.Site); ok {
			behind[s.Host] = true
		}
	}
	c.Sites = len(behind)
	type visit struct {
		edge string
		host string
	}
	hosts, visits := map[string]int{}, map[visit]bool{}
	for _, h := range t.web.Log() {
		if v := (visit{h.Addr.String(), h.Host}); h.Site >= 0 && !visits[v] {
			visits[v] = true
			hosts[v.edge]++
		}
	}
	for _, n := range t.layout.Networks {
		for _, e := range n.Edges {
			if asked := in.Audit.Addrs[e.Addr]; asked > 0 {
				c.Edges = append(c.Edges, Edge{e.Addr.String(), t.layout.World.Name(e.Place),
					hosts[e.Addr.String()], asked})
			} else {
				c.Idle++
			}
		}
	}
	order.SortStableFunc(c.Edges, func(a, b Edge) int {
		return cmp.Compare(b.Requests, a.Requests)
	})
	in.Downloads = slices.DeleteFunc(slices.Clone(in.Downloads), func(d emulate.Download) bool {
		u, err := url.Parse(d.URL)
		return err != nil || !behind[u.Hostname()]
	})
	in.Subnets = nil
	r := emulate.Evaluate(in)
	c.Download, c.Oracle = r.Download, r.Oracle
	return c
}

// Table returns the figures as text.
func (c ContentNetworks) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sites behind %d content networks: p90 %.0f ms, oracle %.0f ms; %d edges "+
		"were asked, %d were not\n", c.Sites, c.Networks, c.Download.P90, c.Oracle.P90,
		len(c.Edges), c.Idle)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "edge\tcity\thosts\trequests\t")
	for _, e := range c.Edges {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t\n", e.Addr, e.City, e.Hosts, e.Requests)
	}
	w.Flush()
	return b.String()
}
