package handover

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

func testIntake(t testing.TB) *intake {
	t.Helper()
	r := &Receiver{DB: open(t, ""), Check: func(u store.URL) error {
		if strings.HasSuffix(string(u), "/bad") {
			return errors.New("bad")
		}
		return nil
	}}
	in := newIntake(r, Offer{Subnet: subnet, Epoch: 2})
	if err := r.stage(in.o); err != nil {
		t.Fatal(err)
	}
	return in
}

func record(name string, p netip.Prefix) *store.Host {
	return &store.Host{Name: name, Subnet: p, Addr: p.Addr().Next(), Pending: 1 << 60, Known: -1}
}

func TestIntakeRefuses(t *testing.T) {
	in := testIntake(t)
	update(t, in.r.DB, func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: "ours.test", Subnet: other, Addr: other.Addr().Next(), Known: 7})
		return nil
	})
	if err := in.take(chunk{Host: "a.test", Record: record("a.test", subnet)}); err != nil {
		t.Fatal(err)
	}
	misplaced := record("x.test", subnet)
	misplaced.Addr = other.Addr().Next()
	long := strings.Repeat("l", maxName+1)
	for name, c := range map[string]chunk{
		"a host of ours":    {Host: "ours.test", Record: record("ours.test", subnet)},
		"record twice":      {Host: "a.test", Record: record("a.test", subnet)},
		"no record":         {Host: "x.test"},
		"other name":        {Host: "x.test", Record: record("y.test", subnet)},
		"other subnet":      {Host: "x.test", Record: record("x.test", other)},
		"address elsewhere": {Host: "x.test", Record: misplaced},
		"long name":         {Host: long, Record: record(long, subnet)},
		"no name":           {Record: record("", subnet)},
		"foreign URL":       {Host: "a.test", Entries: []store.Entry{{URL: "http://x.test/"}}},
		"bad URL":           {Host: "a.test", Entries: []store.Entry{{URL: "http://a.test/bad"}}},
		"long URL":          {Host: "a.test", Entries: []store.Entry{{URL: store.URL("http://a.test/" + strings.Repeat("u", maxURL))}}},
		"foreign robots":    {Host: "a.test", Robots: map[string][]byte{"http://x.test": nil}},
		"odd robots":        {Host: "a.test", Robots: map[string][]byte{"http://a.test/x": nil}},
		"many entries":      {Host: "a.test", Entries: make([]store.Entry, maxChunkEntries+1)},
		"foreign visit":     {Host: "a.test", Visits: []store.Visit{{URL: "http://x.test/"}}},
		"bad visit":         {Host: "a.test", Visits: []store.Visit{{URL: "http://a.test/bad"}}},
		"long history":      {Host: "a.test", Visits: []store.Visit{{URL: "http://a.test/", History: make([]byte, maxHistory+1)}}},
		"many visits":       {Host: "a.test", Visits: make([]store.Visit, maxChunkVisits+1)},
		"large state":       {Host: "a.test", State: make([]byte, maxState+1)},
		"many digests":      {Host: "a.test", Seen: make([]store.Digest, maxChunkSeen+1)},
	} {
		if err := in.take(c); !errors.Is(err, errChunk) {
			t.Errorf("%s: %v", name, err)
		}
	}
	in.got.Seen = maxSeen
	if err := in.take(chunk{Host: "a.test"}); !errors.Is(err, errChunk) {
		t.Errorf("beyond all limits: %v", err)
	}
	if err := in.r.unstage(subnet); err != nil {
		t.Fatal(err)
	}
	err := in.r.DB.View(func(tx *store.Tx) error {
		h, err := tx.Host("ours.test")
		if err == nil && h.Known != 7 {
			t.Errorf("our own host is %+v", h)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// Numbers of another peer's are not taken over as they are.
func TestIntakeCounts(t *testing.T) {
	in := testIntake(t)
	e := store.Entry{URL: "http://a.test/1", Depth: -5, Tries: -1000, Hops: -9, Kind: 0xff}
	err := errors.Join(
		in.take(chunk{Host: "a.test", Record: record("a.test", subnet)}),
		in.take(chunk{Host: "a.test", Entries: []store.Entry{e}, Seen: []store.Digest{e.URL.Digest(), {1}, {2}}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := in.finish()
	if err != nil || len(hosts) != 1 || hosts[0].Pending != 1 || hosts[0].Known != 3 || !hosts[0].NextAt.IsZero() {
		t.Errorf("%+v, %v", hosts, err)
	}
	if q := contents(t, in.r.DB)["a.test"].queue; len(q) != 1 || q[0].Depth != 0 || q[0].Tries != 0 || q[0].Hops != 0 ||
		q[0].Kind != store.KindSitemap|store.KindRevisit {
		t.Errorf("queue %+v", q)
	}
}

// How long a host is to be left alone, and what of its day is used up, comes
// along: by our clock, and within bounds.
func TestIntakeRests(t *testing.T) {
	today := store.DayOf(time.Now())
	for _, tc := range []struct {
		rest, want time.Duration
		day, count int64
		wantCount  int64
	}{
		{rest: 0, want: 0, day: today, count: 7, wantCount: 7},
		{rest: 3 * time.Hour, want: 3 * time.Hour, day: today - 1, count: 7, wantCount: 0},
		{rest: 1000 * time.Hour, want: maxRest, day: today, count: -7, wantCount: 0},
		{rest: -time.Hour, want: 0},
	} {
		in := testIntake(t)
		h := record("a.test", subnet)
		h.NextAt, h.Day, h.DayCount = time.Now().Add(5000*time.Hour), tc.day, tc.count // by a clock that is wrong
		if err := in.take(chunk{Host: "a.test", Record: h, Rest: tc.rest}); err != nil {
			t.Fatal(err)
		}
		hosts, err := in.finish()
		if err != nil || len(hosts) != 1 {
			t.Fatal(hosts, err)
		}
		got := time.Duration(0)
		if at := hosts[0].NextAt; !at.IsZero() {
			got = time.Until(at)
		}
		if got > tc.want || got < tc.want-time.Minute || hosts[0].DayCount != tc.wantCount {
			t.Errorf("%+v: rests %v, %d requests today", tc, got, hosts[0].DayCount)
		}
	}
}

// What is ours is neither staged over nor swept away.
func TestStageLeavesOurs(t *testing.T) {
	for _, p := range []store.Phase{store.PhaseDeciding, store.PhaseOwned, store.PhaseCommitting} {
		r := &Receiver{DB: open(t, "")}
		fill(t, r.DB)
		update(t, r.DB, func(tx *store.Tx) error { return tx.PutSubnet(store.Subnet{Prefix: subnet, Phase: p}) })
		want := contents(t, r.DB)
		if err := r.stage(Offer{Subnet: subnet, Epoch: 2}); err == nil {
			t.Errorf("%v: staged over", p)
		}
		if err := errors.Join(r.unstage(subnet), r.Sweep()); err != nil {
			t.Error(err)
		}
		same(t, contents(t, r.DB), want)
		if got := phase(t, r.DB); got != p {
			t.Errorf("%v has become %v", p, got)
		}
	}
}

// FuzzIntake feeds the receiver chunks. It must not panic, must keep out of
// other subnets, and unstage must find all that it wrote.
func FuzzIntake(f *testing.F) {
	add := func(c chunk) {
		raw, err := wire.Marshal(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	add(chunk{Host: "a.test", Record: record("a.test", subnet), Robots: map[string][]byte{"http://a.test": {1}}})
	add(chunk{Host: "ours.test", Record: record("ours.test", subnet)})
	add(chunk{Host: "b.test", Entries: []store.Entry{{URL: "http://b.test/"}}, Seen: []store.Digest{{3}}})
	add(chunk{End: true})
	in := testIntake(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var c chunk
		if wire.Unmarshal(raw, &c) != nil {
			return
		}
		in.counts, in.hosts, in.got = map[string]*count{}, nil, prepared{}
		if err := in.take(chunk{Host: "b.test", Record: record("b.test", subnet)}); err != nil {
			t.Fatal(err)
		}
		_ = in.take(c)
		if _, err := in.finish(); err != nil {
			t.Fatal(err)
		}
		if err := in.r.unstage(subnet); err != nil {
			t.Fatal(err)
		}
		err := in.r.DB.View(func(tx *store.Tx) error {
			err := tx.Hosts(func(h store.Host) error { t.Errorf("left over: %+v", h); return nil })
			_, perr := tx.Peek(c.Host)
			if c.Host != "" && !errors.Is(perr, store.ErrNotFound) {
				t.Errorf("left in the queue of %q", c.Host)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
