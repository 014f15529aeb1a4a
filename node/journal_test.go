package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

// The messages that the journal understands are those that overlay/owner logs.
func TestKindsAreLogged(t *testing.T) {
	files, err := filepath.Glob("../overlay/owner/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	for message := range kinds {
		if !strings.Contains(code.String(), `"`+message+`"`) {
			t.Errorf("overlay/owner does not log %q", message)
		}
	}
	if n := strings.Count(code.String(), `"`+startedHandover); n < 4 {
		t.Errorf("overlay/owner logs %d messages with %q, want at least 4", n, startedHandover)
	}
}

func TestJournal(t *testing.T) {
	j := newJournal()
	var text bytes.Buffer
	log := slog.New(observingHandler{j: j, next: slog.NewTextHandler(&text,
		&slog.HandlerOptions{Level: slog.LevelWarn})})
	subnet := netip.MustParsePrefix("192.0.2.0/24")
	log.Debug("not an event")
	log.Info("claimed subnet", "subnet", subnet, "epoch", 1)
	log.With("part", "owner").Info("started handover: another peer is nearer", "subnet", subnet,
		"to", "Q", "gain", .4)
	log.Warn("handed over subnet", "subnet", subnet, "to", "Q", "epoch", 2)
	log.Info("gave up host", "err", errors.New(strings.Repeat("x", 2*maxEventText)))

	events := j.events.list()
	if len(events) != 4 {
		t.Fatalf("%d events, want 4: %+v", len(events), events)
	}
	for i, want := range []admin.Event{
		{Kind: admin.EventGained, Level: "INFO", Subnet: "192.0.2.0/24",
			Text: "claimed subnet (epoch 1)"},
		{Kind: admin.EventLeaving, Level: "INFO", Subnet: "192.0.2.0/24", Peer: "Q",
			Text: "started handover: another peer is nearer (part owner, to Q, gain 0.4)"},
		{Kind: admin.EventLost, Level: "WARN", Subnet: "192.0.2.0/24", Peer: "Q",
			Text: "handed over subnet (to Q, epoch 2)"},
	} {
		got := events[i]
		want.Seq, want.At = uint64(i+1), got.At
		if got != want {
			t.Errorf("event %d = %+v, want %+v", i, got, want)
		}
	}
	if n := len(events[3].Text); n > maxEventText+10 {
		t.Errorf("a text of %d bytes", n)
	}
	moves := j.moves.reversed()
	if len(moves) != 2 || moves[0].Kind != admin.EventLost || moves[0].Peer != "Q" ||
		!strings.Contains(moves[0].Why, "another peer is nearer") {
		t.Errorf("moves = %+v", moves)
	}
	if got := text.String(); !strings.Contains(got, "handed over") ||
		strings.Contains(got, "claimed") {
		t.Errorf("the log is %q, want warnings only", got)
	}
}

// A journal keeps a bounded number of everything, and the newest.
func TestJournalIsBounded(t *testing.T) {
	j := newJournal()
	log := slog.New(observingHandler{j: j, next: slog.DiscardHandler})
	for i := range maxEvents + 10 {
		log.Info("claimed subnet", "subnet", fmt.Sprint(i))
		log.Info(startedHandover+"x", "subnet", fmt.Sprint(i))
		j.addPage(store.Page{URL: store.URL(fmt.Sprint(i))})
	}
	for i := range maxFits + 10 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), byte(i >> 16)})
		j.observe(netip.PrefixFrom(a, 32), time.Second, time.Second)
	}
	pages := j.pages.reversed()
	if len(j.events.list()) != maxEvents || len(j.moves.list()) != maxMoves ||
		len(pages) != maxPages || len(j.fits) != maxFits || j.leaving.Len() > maxMoves {
		t.Errorf("%d events, %d moves, %d pages, %d fits, %d leaving", len(j.events.list()),
			len(j.moves.list()), len(pages), len(j.fits), j.leaving.Len())
	}
	if pages[0].URL != fmt.Sprint(maxEvents+9) {
		t.Errorf("the latest page is %s", pages[0].URL)
	}
	log.Info("handed over subnet", "subnet", fmt.Sprint(maxEvents+9))
	if got, want := j.moves.reversed()[0].Why, "handed over subnet: x"; got != want {
		t.Errorf("the latest move is because of %q, want %q", got, want)
	}
	events := j.events.list()
	for i, e := range events {
		if e.Seq != events[0].Seq+uint64(i) {
			t.Fatalf("event %d has number %d after %d", i, e.Seq, events[0].Seq)
		}
	}
}

// What is kept is there after a restart: moves, and the samples of the last day.
func TestKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journal.json")
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	j := newJournal()
	if err := j.load(file, now); err != nil {
		t.Fatalf("load() without a file = %v", err)
	}
	log := slog.New(observingHandler{j: j, next: slog.DiscardHandler})
	log.Info("claimed subnet", "subnet", "192.0.2.0/24")
	log.Info("handed over subnet", "subnet", "192.0.2.0/24", "to", "Q")
	for _, at := range []time.Time{now.Add(-25 * time.Hour), now.Add(-time.Hour),
		now.Add(time.Hour)} { // the clock was set back
		j.sample(admin.Sample{At: at, Pages: 7})
	}
	if err := j.save(file); err != nil {
		t.Fatal(err)
	}
	next := newJournal()
	if err := next.load(file, now); err != nil {
		t.Fatal(err)
	}
	moves, want := next.moves.list(), j.moves.list()
	for i := range want {
		want[i].Seq, want[i].At = 0, want[i].At.UTC()
		moves[i].At = moves[i].At.UTC()
	}
	if len(want) != 2 || !slices.Equal(moves, want) {
		t.Errorf("moves = %+v, want %+v", moves, want)
	}
	if all := next.samples.list(); len(all) != 1 || !all[0].At.Equal(now.Add(-time.Hour)) ||
		all[0].Pages != 7 {
		t.Errorf("samples = %+v", all)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := newJournal().load(file, now); err == nil {
		t.Error("load() of a damaged file = nil")
	}
}

// The gain is an average over pages: of a subnet with three and one with a single page.
func TestAddGain(t *testing.T) {
	var g admin.Gain
	peers := func(best, here, slow float64) []admin.Candidate {
		return []admin.Candidate{{PredictedMs: best}, {PredictedMs: here, Self: true},
			{PredictedMs: slow}}
	}
	addGain(&g, fit{n: 3, measured: 50}, peers(30, 40, 80))
	addGain(&g, fit{n: 1, measured: 10}, peers(10, 20, 60))
	addGain(&g, fit{n: 9, measured: 10}, []admin.Candidate{{PredictedMs: 10}}) // not known here
	want := admin.Gain{Subnets: 2, Pages: 4, MeasuredMs: 160, HereMs: 140, RandomMs: 180,
		BestMs: 100}
	if g != want {
		t.Errorf("gain = %+v, want %+v", g, want)
	}
}

func TestFit(t *testing.T) {
	j := newJournal()
	p := netip.MustParsePrefix("192.0.2.0/24")
	j.observe(p, 0, time.Second) // nothing was predicted
	for range 3 {
		j.observe(p, 100*time.Millisecond, 150*time.Millisecond)
	}
	if f := j.fit(p); f.n != 3 || f.predicted != 100 || f.measured != 150 {
		t.Errorf("fit = %+v", f)
	}
}

func TestDiskOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	samples := func(step int64) (all []admin.Sample) {
		for i := range int64(25) {
			all = append(all, admin.Sample{At: now.Add(time.Duration(i-24) * time.Hour),
				Free: 1000e9 - i*step})
		}
		return all
	}
	d := diskOf(samples(1e9), 1e9, now)
	if d.PerDay < 23.9e9 || d.PerDay > 24.1e9 || d.FullAt == nil {
		t.Fatalf("disk = %+v", d)
	}
	want := now.Add(time.Duration(975. / 24 * 24 * float64(time.Hour)))
	if diff := d.FullAt.Sub(want).Abs(); diff > time.Hour {
		t.Errorf("full at %v, want about %v", d.FullAt, want)
	}
	for name, d := range map[string]admin.Disk{
		"shrinking": diskOf(samples(-1e9), 1e9, now), "constant": diskOf(samples(0), 1e9, now),
		"slow": diskOf(samples(1000), 1e9, now), "short": diskOf(samples(1e9)[:1], 1e9, now),
	} {
		if d.FullAt != nil {
			t.Errorf("%s: full at %v", name, d.FullAt)
		}
	}
	if d := diskOf(samples(1e9), 2000e9, now); d.FullAt == nil || !d.FullAt.Equal(now) {
		t.Errorf("below the minimum: %+v", d)
	}
}

func TestSettings(t *testing.T) {
	c := config.Default()
	c.Crawl.Proxy, c.Crawl.Resolver = "http://me:secret@proxy.example", []string{"https://u:pw@r.example"}
	c.Crawl.Bandwidth = 5000
	n := &Node{opts: Options{Config: c}}
	n.crawlConf.Store(&c.Crawl)
	n.trafficConf.Store(&c.Traffic)
	found := map[string]admin.Setting{}
	for _, s := range n.Settings() {
		found[s.Key] = s
		if strings.Contains(s.Value, "secret") || strings.Contains(s.Value, "pw") {
			t.Errorf("%s shows a password: %s", s.Key, s.Value)
		}
	}
	if s := found["crawl.bandwidth"]; !s.Changed || s.Value == s.Default {
		t.Errorf("crawl.bandwidth = %+v", s)
	}
	if s := found["strategy"]; s.Changed || s.Value != "proxy" {
		t.Errorf("strategy = %+v", s)
	}
	for _, key := range []string{"crawl.shares.own", "overlay.replicas", "archive.quota",
		"log_level"} {
		if _, ok := found[key]; !ok {
			t.Errorf("%s is missing", key)
		}
	}
}

func TestJudge(t *testing.T) {
	all := []admin.Candidate{{PredictedMs: 40}, {PredictedMs: 49, Self: true}, {PredictedMs: 60}}
	for owner, want := range []admin.Verdict{
		admin.VerdictRight, admin.VerdictRight, admin.VerdictWrong,
	} {
		all[0].Owner, all[1].Owner, all[2].Owner = owner == 0, owner == 1, owner == 2
		v, best, at, here := judge(all)
		if v != want || best != 40 || here != 49 || at != all[owner].PredictedMs {
			t.Errorf("owner %d: %s %v %v %v, want %s", owner, v, best, at, here, want)
		}
	}
	if v, _, _, _ := judge(all[:2]); v != admin.VerdictUnknown {
		t.Errorf("without the owner: %s", v)
	}
}
