package runner

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
	"peerd/node/events"
	"peerd/store"
)

// TestLost has three sites with pages that were not fetched: the owner of one was killed, one was
// begun again, and no peer has found one.
func TestLost(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_000_000, 0)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	r := &runner{
		p: &progress{Seeded: begin, Ended: at(200),
			Peers: []*peerState{{ID: "a"}, {ID: "b"}}},
		spec: &emulate.Spec{Peers: 2, Sites: 4, Pages: 80, Seed: 1, Port: 80},
	}
	r.layout = r.spec.Layout()
	cfg := r.spec.Web(r.layout)
	cfg.Addrs = func(i int) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 1, byte(i), 1})}
	}
	w, err := web.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	subnet := func(site int) string { return store.SubnetOf(w.Sites()[site].Addrs[0]).String() }
	ts := newTraces()
	add := func(self string, s float64, e events.Event) {
		e.Head().Self, e.Head().T = self, at(s).UnixMicro()
		ts.add(e)
	}
	add("a", 10, &events.Lease{Subnet: subnet(0), Epoch: 1, Phase: "owned"})
	add("a", 20, &events.Lease{Subnet: subnet(0), Epoch: 1, Phase: "owned", Replicas: 1})
	add("a", 20, &events.Lease{Subnet: subnet(1), Epoch: 1, Phase: "owned", Replicas: 1})
	add("b", 60, &events.Message{Text: "failed to take over subnet", Subnet: subnet(0),
		Details: map[string]string{"err": "too few votes"}})
	add("b", 90, &events.Message{Text: "recreated subnet of dead owner", Subnet: subnet(1)})
	add("b", 91, &events.Lease{Subnet: subnet(1), Epoch: 2, Phase: "estimating"})
	add("b", 198, &events.State{})
	var hits []web.Hit // all pages of the last site, and the first page of the first two
	for i, s := range w.Sites() {
		for page := range w.Pages() {
			path, ok := strings.CutPrefix(page, strings.TrimSuffix(s.URL, "/"))
			if ok && (i == 3 || i < 2 && path == "/") {
				hits = append(hits, web.Hit{Host: s.Host, Path: path, Page: true, End: at(50),
					Peer: r.layout.PeerAddrs[1]})
			}
		}
	}
	rows := r.lostRows(w, hits, ts)
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3: %+v", len(rows), rows)
	}
	for i, want := range []lostRow{
		{Fetched: 1, Last: 50, By: "peer-001", Owners: "peer-000 from 10 s (copies: 1)",
			Why: "its owner ended at 20 s (copies: 1), and no peer continued it in the 180 s " +
				"until the end; the last attempt failed: too few votes"},
		{Fetched: 1, Last: 50, By: "peer-001",
			Owners: "peer-000 from 20 s (copies: 1); peer-001 from 91 s (copies: 0)",
			Why: "an owner failed and no copy was found; it was begun again, with the URLs " +
				"that were on their way"},
	} {
		j := slices.IndexFunc(rows, func(r lostRow) bool { return r.Subnet == subnet(i) })
		got := rows[j]
		if got.Missing != w.Sites()[i].Pages-1 || got.Linked == 0 || got.Linked > got.Missing {
			t.Errorf("site %d: %d pages missing, %d of them linked, of %d", i, got.Missing,
				got.Linked, w.Sites()[i].Pages)
		}
		want.Subnet, want.Missing, want.Linked = got.Subnet, got.Missing, got.Linked
		if got != want {
			t.Errorf("site %d: %+v, want %+v", i, got, want)
		}
	}
	if r := rows[2]; r.Owners != "" || !strings.HasPrefix(r.Why, "by the logs") {
		t.Errorf("a site that was linked and has no owner: %+v", r)
	}
}
