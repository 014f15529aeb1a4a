package replica

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
	"peerd/store"
)

// maliciousOwner is an owner that sends arbitrary frames.
type maliciousOwner struct {
	t testing.TB
	c *wire.Conn
	n uint64
}

func newMaliciousOwner(t testing.TB, from, to host.Host) *maliciousOwner {
	t.Helper()
	c, err := wire.Dial(t.Context(), from, to.ID(), replicaLimits, proto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Reset)
	return &maliciousOwner{t: t, c: c}
}

func (l *maliciousOwner) send(d ownerFrame) {
	l.t.Helper()
	if err := l.c.SendZ(d); err != nil {
		l.t.Fatal(err)
	}
}

// reply waits for a reply to an open request.
func (l *maliciousOwner) reply() openReply {
	l.t.Helper()
	for {
		var u replicaFrame
		if err := l.c.RecvZ(&u); err != nil {
			l.t.Fatal(err)
		}
		if len(u.Replies) > 0 {
			return u.Replies[0]
		}
	}
}

func (l *maliciousOwner) open(o OpenRequest) openReply {
	l.t.Helper()
	l.n++
	if o.ID = l.n; o.Log == 0 {
		o.Log = 1
	}
	l.send(ownerFrame{Open: &o})
	return l.reply()
}

// pieces returns the snapshot of a subnet that fill has written to a store.
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

func putHost(name string, p, addr netip.Prefix) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: p, Addr: addr.Addr().Next(), Queued: -1,
			Known: 1 << 60, NextAt: time.Now().AddDate(1, 0, 0)})
		return nil
	}
}

func inOrder(fns ...func(tx *store.Tx) error) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		for _, fn := range fns {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	}
}

func pushURL(u store.URL) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		_, err := tx.Push(u.Host(), store.Entry{URL: u, Depth: 1 << 20, Kind: 0xff, Hops: 1 << 20},
			0)
		return err
	}
}

func TestMalformedFramesRefused(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	b := startMember(t, hb, open(t, ""), nil)
	update(t, b.db, inOrder(
		func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: other, Phase: store.PhaseOwned})
		},
		putHost("ours.test", other, other), pushURL("http://ours.test/")))
	ours := contents(t, b.db, other)
	l := newMaliciousOwner(t, ha, hb)
	good := putHost("x.test", subnet, subnet)
	for what, raw := range map[string][]byte{
		"an address of another subnet": pieces(t, subnet, putHost("x.test", subnet, other)),
		"a bad URL": pieces(t, subnet,
			inOrder(good, pushURL("http://x.test/bad"))),
		"a long URL": pieces(t, subnet,
			inOrder(good, pushURL(store.URL("http://x.test/"+strings.Repeat("u", maxURL))))),
		"a long history": pieces(t, subnet, inOrder(good, func(tx *store.Tx) error {
			return tx.PutVisit(store.Visit{URL: "http://x.test/",
				History: make([]byte, maxHistory+1)})
		})),
		"not an operation":         []byte("not an operation"),
		"nothing":                  nil,
		"a host of another subnet": pieces(t, other, putHost("y.test", other, other)),
	} {
		if h := l.open(OpenRequest{Subnet: subnet, Epoch: 1}); h.Status != statusOK {
			t.Fatalf("%s: open = %+v, want statusOK", what, h)
		}
		l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1}, Ops: raw}})
		if h := l.reply(); h.Status != statusRefused || h.Reason == "" {
			t.Errorf("%s: reply = %+v, want statusRefused and a reason", what, h)
		}
	}
	// Values out of range are corrected.
	l.open(OpenRequest{Subnet: subnet, Epoch: 1})
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1},
		Ops: pieces(t, subnet, inOrder(
			good, pushURL("http://x.test/"), putHost("ours.test", subnet, subnet),
			pushURL("http://ours.test/more")))}})
	eventually(t, "the copy is complete", func() bool { h, _ := b.Copy(subnet); return h.Complete })
	if got := contents(t, b.db, other); !reflect.DeepEqual(got, ours) {
		t.Errorf("the owned subnet is %v, want it unchanged", got)
	}
	err := b.db.View(func(tx *store.Tx) error {
		h, err := tx.Host("x.test")
		if err != nil {
			return err
		}
		if h.Queued < 0 || h.Known > maxCount || time.Until(h.NextAt) > maxCooldown || !h.Assigned {
			t.Errorf("host = %+v, want its values corrected", h)
		}
		e, err := tx.Peek("x.test")
		if e.Depth > 1<<16-1 || e.Hops > 255 ||
			e.Kind&^(store.KindSitemap|store.KindRevisit) != 0 {
			t.Errorf("entry = %+v, want its values corrected", e)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOpenRefused(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	hc := listen(t)
	hc.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	b := startMember(t, hb, open(t, ""), nil)
	ours := netip.MustParsePrefix("203.0.113.0/24")
	update(t, b.db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: ours, Phase: store.PhaseOwned})
	})
	l, rival := newMaliciousOwner(t, ha, hb), newMaliciousOwner(t, hc, hb)
	for what, o := range map[string]OpenRequest{
		"ours":          {Subnet: ours, Epoch: 9},
		"no subnet":     {Epoch: 1},
		"a wide one":    {Subnet: netip.MustParsePrefix("10.0.0.0/8"), Epoch: 1},
		"no epoch":      {Subnet: subnet},
		"a large lease": {Subnet: subnet, Epoch: 1, Lease: make([]byte, maxLease+1)},
		"much evidence": {Subnet: subnet, Epoch: 1, Evidence: make([]byte, maxEvidence+1)},
		"few estimated": {Subnet: subnet, Epoch: 1, Estimations: -1},
		"its own base":  {Subnet: subnet, Epoch: 1, Log: 7, Base: LogPos{Log: 7}},
	} {
		if h := l.open(o); h.Status != statusRefused {
			t.Errorf("%s: open = %+v, want statusRefused", what, h)
		}
	}
	if h := l.open(OpenRequest{Subnet: subnet, Epoch: 2}); h.Status != statusOK {
		t.Fatalf("open = %+v, want statusOK", h)
	}
	for what, o := range map[string]OpenRequest{"the same epoch": {Subnet: subnet, Epoch: 2},
		"an older one": {Subnet: subnet, Epoch: 1}} {
		if h := rival.open(o); h.Status != statusStale {
			t.Errorf("%s: open = %+v, want statusStale", what, h)
		}
	}
	// Frames for copies that are not open are ignored.
	rival.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1},
		Ops: pieces(t, subnet, putHost("x.test", subnet, subnet))}})
	rival.send(ownerFrame{Records: &logRecords{Subnet: subnet, Log: 1, First: 1}})
	rival.send(ownerFrame{Close: &closeRequest{Subnet: subnet, Drop: true}})
	if h := rival.open(OpenRequest{Subnet: other, Epoch: 1}); h.Status != statusOK {
		t.Errorf("open = %+v, want statusOK", h)
	}
	if h, ok := b.Copy(subnet); !ok || h.Owner != ha.ID() || h.Complete {
		t.Errorf("Copy() = %+v, %v; want the incomplete copy of the first owner", h, ok)
	}
	if h := rival.open(OpenRequest{Subnet: subnet, Epoch: 3}); h.Status != statusOK {
		t.Errorf("open with a later epoch = %+v, want statusOK", h)
	}
	leaving := netip.MustParsePrefix("203.0.114.0/24")
	update(t, b.db, func(tx *store.Tx) error {
		return tx.PutSubnet(store.Subnet{Prefix: leaving, Phase: store.PhaseCommitting})
	})
	if h := rival.open(OpenRequest{Subnet: leaving, Epoch: 2}); h.Status != statusLater {
		t.Errorf("open by the successor during the handover = %+v, want statusLater", h)
	}
	b.policy.set(errors.New("no space"))
	if h := rival.open(OpenRequest{Subnet: subnet, Epoch: 4}); h.Status != statusRefused ||
		!strings.Contains(h.Reason, "no space") {
		t.Errorf("open = %+v, want statusRefused with the reason of the Policy", h)
	}
}

// Pieces and records that do not continue the copy are refused.
func TestGapsDetected(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	b := startMember(t, hb, open(t, ""), nil)
	l := newMaliciousOwner(t, ha, hb)
	piece := pieces(t, subnet, putHost("x.test", subnet, subnet))
	start := LogPos{Log: 1, Seq: 5}
	for i, d := range []ownerFrame{
		// no snapshot yet
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 1, Records: [][]byte{piece}}},
		// not the first piece
		{Piece: &snapshotPiece{Subnet: subnet, Start: start, After: []byte("somewhere"),
			Ops: piece}},
		// of no log
		{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{}, Ops: piece}},
		// a long cursor
		{Piece: &snapshotPiece{Subnet: subnet, Start: start, Next: make([]byte, maxCursor+1),
			Ops: piece}},
	} {
		if h := l.open(OpenRequest{Subnet: subnet, Epoch: 1}); h.Status != statusOK ||
			h.Pos.Log != 0 {
			t.Fatalf("frame %d: open = %+v, want statusOK and no position", i, h)
		}
		l.send(d)
		if h := l.reply(); h.Status != statusReopen && h.Status != statusRefused {
			t.Errorf("frame %d: reply = %+v, want statusReopen or statusRefused", i, h)
		}
	}
	l.open(OpenRequest{Subnet: subnet, Epoch: 1})
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: start, Next: []byte("next"),
		Ops: piece}})
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1, Seq: 6},
		After: []byte("next"), Ops: piece}})
	if h := l.reply(); h.Status != statusReopen {
		t.Errorf("reply to a piece of another snapshot = %+v, want statusReopen", h)
	}
	if h := l.open(OpenRequest{Subnet: subnet, Epoch: 1}); h.Pos != start ||
		string(h.Cursor) != "next" {
		t.Errorf("open = %+v, want the snapshot to continue at %v", h, start)
	}
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: start, Until: 7, Ops: piece}})
	for i, d := range []ownerFrame{
		// 6 is missing
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 7, Records: [][]byte{piece}}},
		// another log
		{Records: &logRecords{Subnet: subnet, Log: 2, First: 6, Records: [][]byte{piece}}},
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 0, Records: [][]byte{piece}}},
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 6,
			Evidence: make([]byte, maxEvidence+1)}},
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 6, Evidence: []byte{0},
			Estimations: -1}},
	} {
		l.send(d)
		if h := l.reply(); h.Status != statusReopen && h.Status != statusRefused {
			t.Errorf("records %d: reply = %+v, want statusReopen or statusRefused", i, h)
		}
		if h := l.open(OpenRequest{Subnet: subnet, Epoch: 1}); h.Pos != start {
			t.Fatalf("records %d: open = %+v, want position %v", i, h, start)
		}
	}
	if h, _ := b.Copy(subnet); h.Complete {
		t.Error("Complete = true without the records up to Until, want false")
	}
	l.send(ownerFrame{Records: &logRecords{Subnet: subnet, Log: 1, First: 4,
		Records: [][]byte{piece, piece, piece, piece}}})
	eventually(t, "the copy is complete", func() bool {
		h, _ := b.Copy(subnet)
		return h.Complete && h.Pos.Seq == 7
	})
}

// Records of one frame are applied in order.
func TestRecordsInOrder(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	b := startMember(t, hb, open(t, ""), nil)
	l := newMaliciousOwner(t, ha, hb)
	bare := putHost("x.test", subnet, subnet)
	empty, queued := pieces(t, subnet, bare),
		pieces(t, subnet, inOrder(bare, pushURL("http://x.test/")))
	l.open(OpenRequest{Subnet: subnet, Epoch: 1})
	l.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1}, Ops: empty}})
	l.send(ownerFrame{Records: &logRecords{Subnet: subnet, Log: 1, First: 1,
		Records: [][]byte{queued, empty, queued, queued, empty}}})
	eventually(t, "all records are applied", func() bool {
		h, _ := b.Copy(subnet)
		return h.Pos.Seq == 5
	})
	err := b.db.View(func(tx *store.Tx) error {
		if _, err := tx.Peek("x.test"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Peek() = %v, want ErrNotFound: the last record clears the queue", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// What is kept is bounded for each owner and for all together.
func TestQuota(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	hc := listen(t)
	hc.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	b := startMember(t, hb, open(t, ""), func(c *Config) { c.MaxURLs, c.MaxCopies = 1000, 3 })
	fill := func(name string, p netip.Prefix, n int) []byte {
		fns := []func(tx *store.Tx) error{putHost(name, p, p)}
		for i := range n {
			fns = append(fns, pushURL(store.URL(fmt.Sprintf("http://%s/%d", name, i))))
		}
		return pieces(t, p, inOrder(fns...))
	}
	a, c := newMaliciousOwner(t, ha, hb), newMaliciousOwner(t, hc, hb)
	a.open(OpenRequest{Subnet: subnet, Epoch: 1})
	a.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1},
		Ops: fill("a.test", subnet, 600)}})
	if h := a.reply(); h.Status != statusRefused {
		t.Errorf("reply to more than the share of an owner = %+v, want statusRefused", h)
	}
	a.open(OpenRequest{Subnet: subnet, Epoch: 1})
	a.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1},
		Ops: fill("a.test", subnet, 450)}})
	eventually(t, "the copy is complete", func() bool { h, _ := b.Copy(subnet); return h.Complete })
	c.open(OpenRequest{Subnet: other, Epoch: 1})
	c.send(ownerFrame{Piece: &snapshotPiece{Subnet: other, Start: LogPos{Log: 1},
		Ops: fill("c.test", other, 490)}})
	eventually(t, "the copy is complete", func() bool { h, _ := b.Copy(other); return h.Complete })
	third := netip.MustParsePrefix("203.0.113.0/24")
	hd := listen(t)
	hd.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	d := newMaliciousOwner(t, hd, hb)
	d.open(OpenRequest{Subnet: third, Epoch: 1})
	d.send(ownerFrame{Piece: &snapshotPiece{Subnet: third, Start: LogPos{Log: 1},
		Ops: fill("d.test", third, 200)}})
	if h := d.reply(); h.Status != statusRefused {
		t.Errorf("reply to more than the total = %+v, want statusRefused", h)
	}
	if h := d.open(OpenRequest{Subnet: netip.MustParsePrefix("203.0.112.0/24"),
		Epoch: 1}); h.Status != statusRefused {
		t.Errorf("open of a fourth copy = %+v, want statusRefused", h)
	}
	// Dropping a copy frees its share.
	if err := b.Drop(other); err != nil {
		t.Fatal(err)
	}
	b.copies.mu.Lock()
	total, theirs := b.copies.total, b.copies.usage[hc.ID()]
	b.copies.mu.Unlock()
	if total.URLs > 600 || theirs != (usage{}) {
		t.Errorf("usage is %+v in total and %+v of the dropped owner, want less and none",
			total, theirs)
	}
	eventually(t, "the copy is wiped", func() bool { return len(contents(t, b.db, other)) == 0 })
}

// An owner that sends one snapshot after another, none of which deletes what came before, is
// refused when its share is used. Snapshots that do are counted once.
func TestQuotaOfSnapshots(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"replacing": 20, "adding": 2} {
		ha, hb := hostPair(t)
		b := startMember(t, hb, open(t, ""), func(c *Config) { c.MaxURLs = 1000 })
		a := newMaliciousOwner(t, ha, hb)
		a.open(OpenRequest{Subnet: subnet, Epoch: 1})
		for i := range n {
			host := fmt.Sprintf("h%d.test", i)
			fill := inOrder(putHost(host, subnet, subnet),
				pushMany(store.URL("http://"+host+"/"), 200))
			x := &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1, Seq: uint64(i)}}
			if name == "replacing" {
				x.Ops = pieces(t, subnet, fill)
			} else {
				x.Ops = record(t, subnet, fill)
			}
			a.send(ownerFrame{Piece: x})
			eventually(t, "the snapshot is applied", func() bool {
				c, _ := b.Copy(subnet)
				return c.Complete && c.Pos == x.Start
			})
			b.copies.mu.Lock()
			got := b.copies.total.URLs
			b.copies.mu.Unlock()
			if want := int64(201); name == "replacing" && got != want ||
				name == "adding" && got != want*int64(i+1) {
				t.Errorf("%s: %d URLs are counted after snapshot %d", name, got, i)
			}
		}
		if name == "adding" {
			a.send(ownerFrame{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1, Seq: 9},
				Ops: record(t, subnet, inOrder(putHost("x.test", subnet, subnet),
					pushMany("http://x.test/", 200)))}})
			if h := a.reply(); h.Status != statusRefused {
				t.Errorf("reply to more than the share = %+v, want statusRefused", h)
			}
		}
	}
}

// pushMany queues n URLs.
func pushMany(prefix store.URL, n int) func(tx *store.Tx) error {
	var fns []func(tx *store.Tx) error
	for i := range n {
		fns = append(fns, pushURL(prefix+store.URL(fmt.Sprint(i))))
	}
	return inOrder(fns...)
}

// record returns the log record of a subnet that fill has written to a store.
func record(t testing.TB, p netip.Prefix, fill func(tx *store.Tx) error) (raw []byte) {
	t.Helper()
	db := open(t, "")
	if err := db.StartLog(p, 1, store.LogPos{}); err != nil {
		t.Fatal(err)
	}
	update(t, db, fill)
	err := db.View(func(tx *store.Tx) error {
		return tx.LogRecords(p, 0, func(_ uint64, r []byte) (bool, error) {
			raw = slices.Clone(r)
			return true, nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// One owner gets half of the places for copies, though others are free.
func TestShareOfCopies(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	hc := listen(t)
	hc.Peerstore().AddAddrs(hb.ID(), hb.Addrs(), time.Hour)
	startMember(t, hb, open(t, ""), func(c *Config) { c.MaxCopies = 4 })
	a, c := newMaliciousOwner(t, ha, hb), newMaliciousOwner(t, hc, hb)
	for i, want := range []openStatus{statusOK, statusOK, statusRefused} {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, byte(i), 0}), 24)
		if h := a.open(OpenRequest{Subnet: p, Epoch: 1}); h.Status != want {
			t.Errorf("open of copy %d = %+v, want status %d", i, h, want)
		}
	}
	if h := c.open(OpenRequest{Subnet: other, Epoch: 1}); h.Status != statusOK {
		t.Errorf("open by another owner = %+v, want status %d", h, statusOK)
	}
}

// FuzzHandleFrame handles arbitrary frames on a link with an open copy.
func FuzzHandleFrame(f *testing.F) {
	db := open(f, "")
	update(f, db, inOrder(
		func(tx *store.Tx) error {
			return tx.PutSubnet(store.Subnet{Prefix: other, Phase: store.PhaseOwned})
		},
		putHost("ours.test", other, other), pushURL("http://ours.test/")))
	h := listen(f)
	s, err := New(Config{Host: h, Protocol: proto, DB: db, Policy: &fakePolicy{},
		URLs:    overlaytest.URLs(checkURL),
		MaxURLs: 10_000, MaxBytes: 10 << 20})
	if err != nil {
		f.Fatal(err)
	}
	piece := pieces(f, subnet, inOrder(putHost("x.test", subnet, subnet),
		pushURL("http://x.test/")))
	for _, d := range []ownerFrame{
		{}, {WitnessSet: []byte("set")}, {Open: &OpenRequest{Subnet: subnet, Epoch: 1, Log: 1}},
		{Close: &closeRequest{Subnet: subnet}},
		{Piece: &snapshotPiece{Subnet: subnet, Start: LogPos{Log: 1}, Ops: piece}},
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 1, Records: [][]byte{piece}}},
		{Records: &logRecords{Subnet: subnet, Log: 1, First: 1, Evidence: []byte{0}}},
	} {
		b, err := wire.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d ownerFrame
		if wire.Unmarshal(b, &d) != nil {
			return
		}
		in := &replicaLink{owner: peer.ID("liar"), unacked: map[netip.Prefix]ack{},
			wakeup: make(chan struct{}, 1)}
		if h := s.copies.handleOpen(in, OpenRequest{Subnet: subnet, Epoch: 1,
			Log: 1}); h.Status != statusOK && h.Status != statusStale {
			t.Fatalf("open = %+v, want statusOK or statusStale", h)
		}
		_ = s.server.handleFrame(in, d)
		for p, ok := s.copies.nextWipe(); ok; p, ok = s.copies.nextWipe() {
			if err := s.copies.wipe(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		err := db.View(func(tx *store.Tx) error {
			rec, err := tx.Subnet(other)
			if err != nil || rec.Phase != store.PhaseOwned {
				t.Errorf("the owned subnet is %v, want %v", rec.Phase, store.PhaseOwned)
			}
			_, err = tx.Peek("ours.test")
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// The reason of a refusal is valid text wherever it is cut. Otherwise the frame could not be
// decoded.
func TestClip(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"short", strings.Repeat("ü", maxReason),
		"x" + strings.Repeat("ü", maxReason)} {
		raw, err := wire.Marshal(openReply{Reason: clip(text)})
		if err != nil {
			t.Fatal(err)
		}
		var h openReply
		if err := wire.Unmarshal(raw, &h); err != nil || !strings.HasPrefix(text, h.Reason) ||
			len(h.Reason) < min(len(text), maxReason-1) {
			t.Errorf("%.9q... arrives as %d bytes, %v", text, len(h.Reason), err)
		}
	}
}
