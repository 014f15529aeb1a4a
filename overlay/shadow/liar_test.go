package shadow

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// liar is an owner that sends what it likes.
type liar struct {
	t testing.TB
	c *wire.Conn
	n uint64
}

func lie(t testing.TB, from, to host.Host) *liar {
	t.Helper()
	c, err := wire.Dial(t.Context(), from, to.ID(), upLimits, proto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Reset)
	return &liar{t: t, c: c}
}

func (l *liar) send(d down) {
	l.t.Helper()
	if err := l.c.SendZ(d); err != nil {
		l.t.Fatal(err)
	}
}

// answer waits for a have.
func (l *liar) answer() have {
	l.t.Helper()
	for {
		var u up
		if err := l.c.RecvZ(&u); err != nil {
			l.t.Fatal(err)
		}
		if len(u.Haves) > 0 {
			return u.Haves[0]
		}
	}
}

func (l *liar) open(o Open) have {
	l.t.Helper()
	l.n++
	if o.Turn = l.n; o.Log == 0 {
		o.Log = 1
	}
	l.send(down{Open: &o})
	return l.answer()
}

// pieces returns what an honest walk of a store says of a subnet that fill made.
func pieces(t testing.TB, p netip.Prefix, fill func(tx *store.Tx) error) []byte {
	t.Helper()
	db := open(t, "")
	update(t, db, fill)
	var raw []byte
	err := db.View(func(tx *store.Tx) (err error) {
		raw, _, err = tx.Snapshot(p, nil, 1<<20)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func host1(name string, p, addr netip.Prefix) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: p, Addr: addr.Addr().Next(), Pending: -1, Known: 1 << 60, NextAt: time.Now().AddDate(1, 0, 0)})
		return nil
	}
}

func and(fns ...func(tx *store.Tx) error) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		for _, fn := range fns {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func push1(u store.URL) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := tx.Push(u.Host(), store.Entry{URL: u, Depth: 1 << 20, Kind: 0xff, Hops: 1 << 20}, 0)
		return err
	}
}

func TestLiesAreRefused(t *testing.T) {
	ha, hb := hostPair(t)
	b := join(t, hb, open(t, ""), nil)
	update(t, b.db, and(
		func(tx *store.Tx) error { return tx.PutSubnet(store.Subnet{Prefix: other, Phase: store.PhaseOwned}) },
		host1("ours.test", other, other), push1("http://ours.test/")))
	ours := contents(t, b.db, other)
	l := lie(t, ha, hb)
	good := host1("x.test", subnet, subnet)
	for what, raw := range map[string][]byte{
		"an address elsewhere": pieces(t, subnet, host1("x.test", subnet, other)),
		"a bad URL":            pieces(t, subnet, and(good, push1("http://x.test/bad"))),
		"a long URL":           pieces(t, subnet, and(good, push1(store.URL("http://x.test/"+strings.Repeat("u", maxURL))))),
		"a long history": pieces(t, subnet, and(good, func(tx *store.Tx) error {
			return tx.PutVisit(store.Visit{URL: "http://x.test/", History: make([]byte, maxHistory+1)})
		})),
		"rubbish":               []byte("rubbish"),
		"nothing":               nil,
		"a host of another one": pieces(t, other, host1("y.test", other, other)),
	} {
		if h := l.open(Open{Subnet: subnet, Epoch: 1}); h.Verdict != verdictOK {
			t.Fatalf("%s: opened: %+v", what, h)
		}
		l.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: raw}})
		if h := l.answer(); h.Verdict != verdictRefused || h.Why == "" {
			t.Errorf("%s: %+v", what, h)
		}
	}
	// What is only wrong is mended.
	l.open(Open{Subnet: subnet, Epoch: 1})
	l.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: pieces(t, subnet, and(
		good, push1("http://x.test/"), host1("ours.test", subnet, subnet), push1("http://ours.test/more")))}})
	eventually(t, "a whole copy", func() bool { h, _ := b.Copy(subnet); return h.Complete })
	if got := contents(t, b.db, other); !reflect.DeepEqual(got, ours) {
		t.Errorf("what is ours has become %v", got)
	}
	err := b.db.View(func(tx *store.Tx) error {
		h, err := tx.Host("x.test")
		if err != nil {
			return err
		}
		if h.Pending < 0 || h.Known > maxCount || time.Until(h.NextAt) > maxRest || !h.Assigned {
			t.Errorf("the host is %+v", h)
		}
		e, err := tx.Peek("x.test")
		if e.Depth > maxDepth || e.Hops > maxHops || e.Kind&^(store.KindSitemap|store.KindRevisit) != 0 {
			t.Errorf("the entry is %+v", e)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpensAreRefused(t *testing.T) {
	ha, hb := hostPair(t)
	hc := listen(t)
	hc.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	b := join(t, hb, open(t, ""), nil)
	ours := netip.MustParsePrefix("203.0.113.0/24")
	update(t, b.db, func(tx *store.Tx) error { return tx.PutSubnet(store.Subnet{Prefix: ours, Phase: store.PhaseOwned}) })
	l, rival := lie(t, ha, hb), lie(t, hc, hb)
	for what, o := range map[string]Open{
		"ours":          {Subnet: ours, Epoch: 9},
		"no subnet":     {Epoch: 1},
		"a wide one":    {Subnet: netip.MustParsePrefix("10.0.0.0/8"), Epoch: 1},
		"no epoch":      {Subnet: subnet},
		"a large lease": {Subnet: subnet, Epoch: 1, Lease: make([]byte, maxLease+1)},
		"much evidence": {Subnet: subnet, Epoch: 1, Evidence: make([]byte, maxEvidence+1)},
		"few estimated": {Subnet: subnet, Epoch: 1, Estimations: -1},
		"its own base":  {Subnet: subnet, Epoch: 1, Log: 7, Base: TailPos{Log: 7}},
	} {
		if h := l.open(o); h.Verdict != verdictRefused {
			t.Errorf("%s: %+v", what, h)
		}
	}
	if h := l.open(Open{Subnet: subnet, Epoch: 2}); h.Verdict != verdictOK {
		t.Fatalf("%+v", h)
	}
	for what, o := range map[string]Open{"the same epoch": {Subnet: subnet, Epoch: 2}, "an older one": {Subnet: subnet, Epoch: 1}} {
		if h := rival.open(o); h.Verdict != verdictStale {
			t.Errorf("%s: %+v", what, h)
		}
	}
	// What is not opened is left alone.
	rival.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: pieces(t, subnet, host1("x.test", subnet, subnet))}})
	rival.send(down{Tail: &tail{Subnet: subnet, Log: 1, First: 1}})
	rival.send(down{Close: &closing{Subnet: subnet, Drop: true}})
	if h := rival.open(Open{Subnet: other, Epoch: 1}); h.Verdict != verdictOK {
		t.Errorf("%+v", h)
	}
	if h, ok := b.Copy(subnet); !ok || h.Owner != ha.ID() || h.Complete {
		t.Errorf("the copy is %+v", h)
	}
	if h := rival.open(Open{Subnet: subnet, Epoch: 3}); h.Verdict != verdictOK {
		t.Errorf("a later epoch: %+v", h)
	}
	leaving := netip.MustParsePrefix("203.0.114.0/24")
	update(t, b.db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: leaving, Phase: store.PhaseCommitting})
	})
	if h := rival.open(Open{Subnet: leaving, Epoch: 2}); h.Verdict != verdictLater {
		t.Errorf("the heir comes early: %+v", h)
	}
	b.k.set(errors.New("no room"))
	if h := rival.open(Open{Subnet: subnet, Epoch: 4}); h.Verdict != verdictRefused || !strings.Contains(h.Why, "no room") {
		t.Errorf("unwilling: %+v", h)
	}
}

// Pieces and records that do not follow on what is there are not taken.
func TestGapsAreNoticed(t *testing.T) {
	ha, hb := hostPair(t)
	b := join(t, hb, open(t, ""), nil)
	l := lie(t, ha, hb)
	piece := pieces(t, subnet, host1("x.test", subnet, subnet))
	start := TailPos{Log: 1, Seq: 5}
	for i, d := range []down{
		{Tail: &tail{Subnet: subnet, Log: 1, First: 1, Records: [][]byte{piece}}},                // no snapshot yet
		{Snap: &snap{Subnet: subnet, Start: start, After: []byte("somewhere"), Ops: piece}},      // not the first piece
		{Snap: &snap{Subnet: subnet, Start: TailPos{}, Ops: piece}},                              // of no log
		{Snap: &snap{Subnet: subnet, Start: start, Next: make([]byte, maxCursor+1), Ops: piece}}, // a long cursor
	} {
		if h := l.open(Open{Subnet: subnet, Epoch: 1}); h.Verdict != verdictOK || h.Pos.Log != 0 {
			t.Fatalf("%d: %+v", i, h)
		}
		l.send(d)
		if h := l.answer(); h.Verdict != verdictAgain && h.Verdict != verdictRefused {
			t.Errorf("%d: %+v", i, h)
		}
	}
	l.open(Open{Subnet: subnet, Epoch: 1})
	l.send(down{Snap: &snap{Subnet: subnet, Start: start, Next: []byte("next"), Ops: piece}})
	l.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1, Seq: 6}, After: []byte("next"), Ops: piece}})
	if h := l.answer(); h.Verdict != verdictAgain {
		t.Errorf("a piece of another snapshot: %+v", h)
	}
	if h := l.open(Open{Subnet: subnet, Epoch: 1}); h.Pos != start || string(h.Cursor) != "next" {
		t.Errorf("the snapshot is to go on at %+v", h)
	}
	l.send(down{Snap: &snap{Subnet: subnet, Start: start, Until: 7, Ops: piece}})
	for i, d := range []down{
		{Tail: &tail{Subnet: subnet, Log: 1, First: 7, Records: [][]byte{piece}}}, // 6 is missing
		{Tail: &tail{Subnet: subnet, Log: 2, First: 6, Records: [][]byte{piece}}}, // another log
		{Tail: &tail{Subnet: subnet, Log: 1, First: 0, Records: [][]byte{piece}}},
	} {
		l.send(d)
		if h := l.answer(); h.Verdict != verdictAgain && h.Verdict != verdictRefused {
			t.Errorf("record %d: %+v", i, h)
		}
		if h := l.open(Open{Subnet: subnet, Epoch: 1}); h.Pos != start {
			t.Fatalf("%d: %+v", i, h)
		}
	}
	if h, _ := b.Copy(subnet); h.Complete {
		t.Error("it is whole without the records that belong to the snapshot")
	}
	l.send(down{Tail: &tail{Subnet: subnet, Log: 1, First: 4, Records: [][]byte{piece, piece, piece, piece}}})
	eventually(t, "a whole copy", func() bool { h, _ := b.Copy(subnet); return h.Complete && h.Pos.Seq == 7 })
}

// What one record sets and the next clears is gone, though both come in one
// frame.
func TestRecordsInOrder(t *testing.T) {
	ha, hb := hostPair(t)
	b := join(t, hb, open(t, ""), nil)
	l := lie(t, ha, hb)
	bare := host1("x.test", subnet, subnet)
	empty, queued := pieces(t, subnet, bare), pieces(t, subnet, and(bare, push1("http://x.test/")))
	l.open(Open{Subnet: subnet, Epoch: 1})
	l.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: empty}})
	l.send(down{Tail: &tail{Subnet: subnet, Log: 1, First: 1, Records: [][]byte{queued, empty, queued, queued, empty}}})
	eventually(t, "all are taken in", func() bool { h, _ := b.Copy(subnet); return h.Pos.Seq == 5 })
	err := b.db.View(func(tx *store.Tx) error {
		if _, err := tx.Peek("x.test"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("something is queued: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// One owner, and all together, are bounded.
func TestBounds(t *testing.T) {
	ha, hb := hostPair(t)
	hc := listen(t)
	hc.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	b := join(t, hb, open(t, ""), func(c *Config) { c.MaxURLs, c.MaxReplicas = 1000, 3 })
	fill := func(name string, p netip.Prefix, n int) []byte {
		fns := []func(tx *store.Tx) error{host1(name, p, p)}
		for i := range n {
			fns = append(fns, push1(store.URL(fmt.Sprintf("http://%s/%d", name, i))))
		}
		return pieces(t, p, and(fns...))
	}
	a, c := lie(t, ha, hb), lie(t, hc, hb)
	a.open(Open{Subnet: subnet, Epoch: 1})
	a.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: fill("a.test", subnet, 600)}})
	if h := a.answer(); h.Verdict != verdictRefused {
		t.Errorf("more than its share: %+v", h)
	}
	a.open(Open{Subnet: subnet, Epoch: 1})
	a.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: fill("a.test", subnet, 450)}})
	eventually(t, "a whole copy", func() bool { h, _ := b.Copy(subnet); return h.Complete })
	c.open(Open{Subnet: other, Epoch: 1})
	c.send(down{Snap: &snap{Subnet: other, Start: TailPos{Log: 1}, Ops: fill("c.test", other, 490)}})
	eventually(t, "a whole copy", func() bool { h, _ := b.Copy(other); return h.Complete })
	third := netip.MustParsePrefix("203.0.113.0/24")
	hd := listen(t)
	hd.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	d := lie(t, hd, hb)
	d.open(Open{Subnet: third, Epoch: 1})
	d.send(down{Snap: &snap{Subnet: third, Start: TailPos{Log: 1}, Ops: fill("d.test", third, 200)}})
	if h := d.answer(); h.Verdict != verdictRefused {
		t.Errorf("more than there is room for: %+v", h)
	}
	if h := d.open(Open{Subnet: netip.MustParsePrefix("203.0.112.0/24"), Epoch: 1}); h.Verdict != verdictRefused {
		t.Errorf("a fourth copy: %+v", h)
	}
	// What is given up makes room.
	if err := b.Forget(other); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	total, theirs := b.total, b.usage[hc.ID()]
	b.mu.Unlock()
	if total.URLs > 600 || theirs != (size{}) {
		t.Errorf("%+v in all, %+v of who has nothing here", total, theirs)
	}
	eventually(t, "wiped", func() bool { return len(contents(t, b.db, other)) == 0 })
}

// FuzzTake lets anything come on a link with an open copy.
func FuzzTake(f *testing.F) {
	db := open(f, "")
	update(f, db, and(
		func(tx *store.Tx) error { return tx.PutSubnet(store.Subnet{Prefix: other, Phase: store.PhaseOwned}) },
		host1("ours.test", other, other), push1("http://ours.test/")))
	h := listen(f)
	s, err := New(Config{Host: h, Protocol: proto, DB: db, Keeper: &keeper{}, Check: checkURL, MaxURLs: 10_000, MaxBytes: 10 << 20})
	if err != nil {
		f.Fatal(err)
	}
	piece := pieces(f, subnet, and(host1("x.test", subnet, subnet), push1("http://x.test/")))
	for _, d := range []down{
		{}, {Panel: []byte("panel")}, {Open: &Open{Subnet: subnet, Epoch: 1, Log: 1}}, {Close: &closing{Subnet: subnet}},
		{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 1}, Ops: piece}},
		{Tail: &tail{Subnet: subnet, Log: 1, First: 1, Records: [][]byte{piece}}},
	} {
		b, err := wire.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d down
		if wire.Unmarshal(b, &d) != nil {
			return
		}
		in := &inlink{owner: peer.ID("liar"), dirty: map[netip.Prefix]ack{}, kick: make(chan struct{}, 1)}
		if h := s.open(in, Open{Subnet: subnet, Epoch: 1, Log: 1}); h.Verdict != verdictOK && h.Verdict != verdictStale {
			t.Fatalf("%+v", h)
		}
		_ = s.take(in, d)
		for p, ok := s.nextWipe(); ok; p, ok = s.nextWipe() {
			if err := s.wipe(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		err := db.View(func(tx *store.Tx) error {
			rec, err := tx.Subnet(other)
			if err != nil || rec.Phase != store.PhaseOwned {
				t.Errorf("what is ours is %v", rec.Phase)
			}
			_, err = tx.Peek("ours.test")
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
