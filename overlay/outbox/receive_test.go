package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

func TestReceive(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.own["x.test"] = true
	p.accepts = func(s netip.Prefix) (bool, bool, []byte) {
		switch s {
		case subnet(1):
			return true, false, nil
		case subnet(2):
			return false, true, nil
		case subnet(3):
			return false, false, []byte("lease")
		}
		return false, false, nil
	}
	p.check = func(u store.URL) error {
		if strings.HasSuffix(string(u), "/bad") {
			return errors.New("bad")
		}
		return nil
	}
	groupOf := func(n int, urls ...store.URL) group {
		g := group{Host: "x.test", Subnet: subnet(n), Addr: addr(n)}
		for _, u := range urls {
			g.URLs = append(g.URLs, item{URL: u, Depth: -3})
		}
		return g
	}
	r, err := p.f.receive(context.Background(), batch{Groups: []group{
		groupOf(1, "http://x.test/a", "http://x.test/bad"), groupOf(2, "http://x.test/b"),
		groupOf(3, "http://x.test/c"), groupOf(4, "http://x.test/d"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := []result{accepted, retryLater, notOwner, notOwner}
	for i, v := range want {
		if r.Results[i] != v {
			t.Errorf("group %d: result %d, want %d", i, r.Results[i], v)
		}
	}
	if len(r.Leases) != 1 || string(r.Leases[0]) != "lease" {
		t.Errorf("leases %q, want one", r.Leases)
	}
	if got := p.queued("x.test"); got != 1 {
		t.Errorf("%d queued, want 1", got)
	}
	if c := p.db.Counters(); c.URLsReceived != 1 || c.Dropped != 1 || c.BatchesReceived != 1 {
		t.Errorf("Counters() = %+v, want 1 URL received, 1 dropped, 1 batch", c)
	}
}

func TestReceiveRefuses(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	one := []item{{URL: "http://x.test/"}}
	many := make([]item, maxBatchURLs+1)
	for i := range many {
		many[i].URL = "http://x.test/"
	}
	for name, b := range map[string]batch{
		"foreign URL": {Groups: []group{{Host: "y.test", Subnet: subnet(1), URLs: one}}},
		"no subnet":   {Groups: []group{{Host: "x.test", URLs: one}}},
		"odd subnet": {Groups: []group{{Host: "x.test", Subnet: netip.MustParsePrefix("10.0.0.0/8"),
			URLs: one}}},
		"host bits": {Groups: []group{{Host: "x.test", Subnet: netip.MustParsePrefix("10.0.0.1/24"),
			URLs: one}}},
		"no URL":     {Groups: []group{{Host: "x.test", Subnet: subnet(1)}}},
		"many URLs":  {Groups: []group{{Host: "x.test", Subnet: subnet(1), URLs: many}}},
		"many hosts": {Groups: make([]group, maxBatchURLs+1)},
		"long URL": {Groups: []group{{Host: "x.test", Subnet: subnet(1),
			URLs: []item{{URL: store.URL("http://x.test/" + strings.Repeat("a", maxURL))}}}}},
	} {
		if _, err := p.f.receive(context.Background(), b); !errors.Is(err, errBatch) {
			t.Errorf("receive, %s: %v, want errBatch", name, err)
		}
	}
	if n := p.pendingURLs(); n != 0 {
		t.Errorf("%d URLs pending, want 0", n)
	}
}

// The values that a finder sends are limited, and a revisit is ignored: only the owner
// schedules revisits.
func TestReceiveFields(t *testing.T) {
	t.Parallel()
	g := group{Host: "x.test", Subnet: subnet(1), Addr: addr(1)}
	for _, c := range []struct {
		kind, want store.Kind
		hops, most int
	}{
		{0, 0, 0, 0},
		{store.KindSitemap, store.KindSitemap, 7, 7},
		{store.KindRevisit, 0, -1, 0},
		{0xff, store.KindSitemap | store.KindChanged | store.KindPinged, 1 << 40, maxHops},
	} {
		p := g.pending(item{URL: "http://x.test/", From: "y.test", Kind: c.kind, Hops: c.hops},
			time.Now())
		if p.Kind != c.want || p.Hops != c.most || p.From != "y.test" {
			t.Errorf("%+v is stored as %+v", c, p)
		}
	}
	long := batch{Groups: []group{{Host: "x.test", Subnet: subnet(1),
		URLs: []item{{URL: "http://x.test/", From: strings.Repeat("y", maxHost+1)}}}}}
	if err := long.check(); !errors.Is(err, errBatch) {
		t.Errorf("check of a long host name: %v, want errBatch", err)
	}
}

// What other peers send again counts once, in one batch or in several.
func TestReceivedAgain(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.addPending("x.test", 50) // found here
	b := batch{from: 1, Groups: []group{{Host: "x.test", Subnet: subnet(1)}}}
	for i := 48; i < 52; i++ { // two of them are known
		it := item{URL: url("x.test", i)}
		b.Groups[0].URLs = append(b.Groups[0].URLs, it, it)
	}
	for range 5 {
		if _, err := p.f.receive(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	p.f.withTable(func(tab *hostTable) {
		if tab.received != 2 {
			t.Errorf("%d received URLs are counted, want 2", tab.received)
		}
	})
	var all []store.PendingHost
	err := p.db.View(func(tx *store.Tx) (err error) { all, err = tx.PendingHosts(); return err })
	if err != nil || len(all) != 1 || all[0].Received != 2 {
		t.Errorf("PendingHosts() = %+v, %v, want 2 received, as after a restart", all, err)
	}
}

// The home record of a host that other peers take for one of ours is read at once.
func TestDisputedHostWakes(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.addPending("x.test", 1)
	p.f.withTable(func(tab *hostTable) { resolveAll(tab, time.Now(), owned("other")) })
	p.safe = func([]netip.Prefix) []netip.Prefix {
		select { // Run has handled what came before
		case <-p.f.wakeup:
		default:
		}
		return nil
	}
	r, err := p.f.receive(t.Context(), batch{from: 1, Groups: []group{{Host: "x.test",
		Subnet: subnet(1), URLs: []item{{URL: url("x.test", 0)}}}}})
	if err != nil || r.Results[0] != wrongHome {
		t.Fatalf("receive() = %v, %v, want %d", r.Results, err, wrongHome)
	}
	select {
	case <-p.f.wakeup:
	default:
		t.Error("Run sleeps on although a host is to be looked up now")
	}
}

// A receipt has the lease of a subnet once, and is not too large for its receiver, however many
// hosts and subnets it denies.
func TestReceiptFits(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	p.accepts = func(s netip.Prefix) (bool, bool, []byte) {
		lease := bytes.Repeat([]byte{1}, 16<<10)
		return false, false, append(lease, s.String()...)
	}
	for _, subnets := range []int{1, 300} {
		var b batch
		for i := range 300 {
			h := fmt.Sprintf("h%d.test", i)
			b.Groups = append(b.Groups, group{Host: h, Subnet: subnet(i % subnets),
				URLs: []item{{URL: url(h, 0)}}})
		}
		r, err := p.f.receive(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := wire.Marshal(r)
		if err != nil || len(raw) > receiptLimits.MaxMsg || r.check(b) != nil {
			t.Errorf("a receipt of %d bytes, %v, %v", len(raw), err, r.check(b))
		}
		if n := len(r.Leases); n == 0 || subnets == 1 && n != 1 {
			t.Errorf("%d leases of %d subnets", n, subnets)
		}
	}
}

func TestReceiptCheck(t *testing.T) {
	t.Parallel()
	b := batch{Groups: make([]group, 2)}
	for name, r := range map[string]receipt{
		"short":   {Results: []result{accepted}},
		"unknown": {Results: []result{accepted, 9}},
		"none":    {Results: []result{accepted, 0}},
		"leases":  {Results: []result{accepted, retryLater}, Leases: make([][]byte, 3)},
	} {
		if r.check(b) == nil {
			t.Errorf("check of a receipt with bad %s = nil, want an error", name)
		}
	}
	if err := (receipt{Results: []result{accepted, notOwner}, Leases: make([][]byte, 2)}).check(
		b); err != nil {
		t.Error(err)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	g := newGate()
	ctx, cancel := context.WithCancel(t.Context())
	var leave []func()
	for i := range gateSlots {
		l, err := g.enter(ctx, peer.ID(rune('a'+i/gateSlotsPerPeer)))
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	if _, err := g.enter(ctx, "a"); !errors.Is(err, errBusy) {
		t.Errorf("enter for a fifth batch of one peer: %v, want errBusy", err)
	}
	cancel()
	if _, err := g.enter(ctx, "z"); !errors.Is(err, context.Canceled) {
		t.Errorf("enter with no free slot: %v, want context.Canceled", err)
	}
	for _, l := range leave {
		l()
	}
	if len(g.by) != 0 || len(g.slots) != 0 {
		t.Errorf("after all have left: %v and %d slots used, want none", g.by, len(g.slots))
	}
}

// FuzzReceive passes batches to the receiver. It must not panic, and must store only URLs of
// the batch, for their host.
func FuzzReceive(f *testing.F) {
	for _, b := range []batch{
		{},
		{Groups: []group{{Host: "x.test", Subnet: subnet(1), Addr: addr(1),
			URLs: []item{{URL: "http://x.test/a", Depth: 3}}}}},
		{Groups: []group{{Host: "::1", Subnet: netip.MustParsePrefix("2001:db8::/48"),
			URLs: []item{{URL: "http://[::1]/", Depth: -1}}}}},
	} {
		raw, err := wire.Marshal(b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	p := newPeer(f, listen(f), open(f, ""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b batch
		if wire.Unmarshal(raw, &b) != nil {
			return
		}
		r, err := p.f.receive(context.Background(), b)
		if err == nil && len(r.Results) != len(b.Groups) {
			t.Errorf("%d results for %d hosts", len(r.Results), len(b.Groups))
		}
		for _, g := range b.Groups {
			for _, it := range g.URLs {
				x := g.pending(it, time.Now())
				if x.Depth < 0 || x.Depth > maxDepth || x.Hops < 0 || x.Hops > maxHops ||
					x.Kind.Revisit() || x.Hint.IsValid() && store.SubnetOf(x.Hint) != g.Subnet {
					t.Errorf("stored invalid values: %+v", x)
				}
			}
		}
	})
}
