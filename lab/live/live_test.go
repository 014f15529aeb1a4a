package live

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"peerd/lab/experiment"
	"peerd/lab/experiment/experimenttest"
	"peerd/node/events"
)

// fake is a run of a peer with a clock that is wrong.
type fake struct {
	self, run string
	offset    float64 // microseconds at time 0
	drift     float64
	from, to  float64 // true time, in microseconds
	log       []events.Event
}

// read returns what the clock shows at a true time.
func (f *fake) read(t float64) int64 {
	return int64(math.Round(epoch + t + f.offset + f.drift*(t-f.from)))
}

const epoch = 1.8e15

func (f *fake) add(t float64, e events.Event) {
	h := e.Head()
	h.T, h.Self, h.Run = f.read(t), f.self, f.run
	f.log = append(f.log, e)
}

// exchange has f ask g at a true time, with delays of 5 to 100 ms in each direction, and returns
// when it is over.
func (f *fake) exchange(rng *rand.Rand, t float64, g *fake, id int64) {
	q, r := &events.Exchange{Peer: g.self, ID: id, Asked: true},
		&events.Exchange{Peer: f.self, ID: id}
	for range 3 {
		delay := func() float64 { return 5000 + 95_000*rng.Float64()*rng.Float64() }
		q.Sent = append(q.Sent, f.read(t))
		t += delay()
		r.Received = append(r.Received, g.read(t))
		t += 300
		r.Sent = append(r.Sent, g.read(t))
		t += delay()
		q.Received = append(q.Received, f.read(t))
	}
	g.add(t, r)
	f.add(t, q)
}

// truth is the true time of an event, which its message carries.
func truth(t *testing.T, e *events.Message) (at float64) {
	t.Helper()
	if _, err := fmt.Sscan(e.Text, &at); err != nil {
		t.Fatal(err)
	}
	return at
}

// world returns the logs of peers that exchange coordinates for ten minutes; some restart, and
// then have another wrong clock.
func world(rng *rand.Rand, peers int) (all []*fake) {
	const end = 600e6
	for i := range peers {
		newRun := func(run string, from, to float64) *fake {
			f := &fake{self: fmt.Sprintf("peer%d", i), run: run, from: from, to: to,
				offset: (rng.Float64() - 0.5) * 7200e6, drift: (rng.Float64() - 0.5) * 180e-6}
			f.log = append(f.log, &events.Start{Header: events.Header{T: f.read(from),
				Kind: "start", Self: f.self, Run: run}, Schema: 1, Strategy: "proxy"})
			all = append(all, f)
			return f
		}
		if i%3 == 1 {
			newRun("a", 0, 200e6)
			newRun("b", 250e6, end)
		} else {
			newRun("a", float64(i)*1e6, end)
		}
	}
	id := int64(0)
	for t := 5e6; t < end-1e6; t += 4e6 / float64(peers) {
		f := all[rng.IntN(len(all))]
		g := all[rng.IntN(len(all))]
		there := func(x *fake) bool { return t >= x.from && t < x.to-1e6 }
		if f.self != g.self && there(f) && there(g) {
			id++
			f.exchange(rng, t, g, id)
		}
		if there(f) {
			f.add(t+0.5e6, &events.Message{Text: fmt.Sprint(t + 0.5e6)})
		}
	}
	return all
}

// write writes logs as peers do, and returns the names of the files.
func write(t *testing.T, all []*fake) (names []string) {
	t.Helper()
	dir := t.TempDir()
	for i, f := range all {
		slices.SortStableFunc(f.log, func(a, b events.Event) int {
			return int(a.Head().T - b.Head().T)
		})
		var b bytes.Buffer
		for _, e := range f.log {
			if e.Head().Kind == "" {
				e.Head().Kind = map[bool]events.Kind{true: "exchange",
					false: "message"}[isExchange(e)]
			}
			if err := json.NewEncoder(&b).Encode(e); err != nil {
				t.Fatal(err)
			}
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func isExchange(e events.Event) bool { _, ok := e.(*events.Exchange); return ok }

// Merged events have their true times within their bounds, up to one difference that all share,
// and are in order. Bounds are about a round trip at most.
func TestMerge(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		names := write(t, world(rng, 8))
		var b bytes.Buffer
		m, err := Merge(&b, names, 0)
		if err != nil {
			t.Fatal(err)
		}
		var x Exchanges
		if _, err := Each(names, func(e events.Event) error { x.Add(e); return nil }); err != nil {
			t.Fatal(err)
		}
		c, err := x.Align(0)
		if err != nil {
			t.Fatal(err)
		}
		r := events.NewReader(&b)
		// Every two events are compared by what they are wrong against the reference's own clock.
		var ref *events.Message
		before, n := int64(0), 0
		var all []*events.Message
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			h := e.Head()
			if h.T < before {
				t.Fatalf("seed %d: an event at %d after one at %d", seed, h.T, before)
			}
			before = h.T
			if e, ok := e.(*events.Message); ok {
				n++
				if h.Bound < 0 || h.Bound > 40_000 {
					t.Fatalf("seed %d: bound %d, want at most 40 ms", seed, h.Bound)
				}
				if clockOf(h) == c.Reference && ref == nil {
					ref = e
				}
				all = append(all, e)
			}
		}
		drift := driftOf(t, names, c.Reference) // the reference's clock drifts, too
		for _, e := range all {
			want := float64(ref.T) + (truth(t, e)-truth(t, ref))*(1+drift)
			if off := math.Abs(float64(e.T) - want); off > float64(e.Bound)+2 {
				t.Fatalf("seed %d: %s run %s at %s: wrong by %.0f µs, bound %d", seed, e.Self,
					e.Run, e.Text, off, e.Bound)
			}
		}
		if n < 500 || m.Unaligned != 0 || m.Runs != 11 {
			t.Errorf("seed %d: %d messages, %+v", seed, n, m)
		}
		t.Logf("seed %d: mean bound %.0f µs, worst %d µs", seed, m.Mean, m.Worst)
	}
}

// driftOf returns the drift of a clock, from two of its messages.
func driftOf(t *testing.T, names []string, k clock) float64 {
	var first, last *events.Message
	_, err := Each(names, func(e events.Event) error {
		if m, ok := e.(*events.Message); ok && clockOf(e.Head()) == k {
			if first == nil {
				first = m
			}
			last = m
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return float64(last.T-first.T)/(truth(t, last)-truth(t, first)) - 1
}

// A clock that drifts faster than is assumed is an error, and none if more is assumed.
func TestFastClock(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 1))
	all := world(rng, 2)
	for _, f := range all {
		for _, e := range f.log {
			if f.self != "peer0" {
				continue
			}
			fast := func(at *int64) { *at += (*at - int64(epoch+f.offset)) / 100 }
			fast(&e.Head().T)
			if q, ok := e.(*events.Exchange); ok {
				for i := range q.Sent {
					fast(&q.Sent[i])
					fast(&q.Received[i])
				}
			}
		}
	}
	names := write(t, all)
	if _, err := Merge(io.Discard, names, 0); !errors.Is(err, ErrClocks) {
		t.Errorf("Merge() = %v, want ErrClocks", err)
	}
	if _, err := Merge(io.Discard, names, 0.02); err != nil {
		t.Errorf("Merge() with more drift = %v", err)
	}
}

// A run without exchanges keeps its times, and says so.
func TestUnaligned(t *testing.T) {
	t.Parallel()
	f := &fake{self: "a", run: "r"}
	g := &fake{self: "b", run: "r"}
	for i := range 10 {
		f.add(float64(i), &events.Message{Text: "1"})
	}
	f.exchange(rand.New(rand.NewPCG(1, 1)), 20, g, 1)
	h := &fake{self: "c", run: "r", offset: 1e9}
	h.add(5, &events.Message{Text: "alone"})
	var b bytes.Buffer
	m, err := Merge(&b, write(t, []*fake{f, g, h}), 0)
	if err != nil || m.Unaligned != 1 || m.Runs != 3 {
		t.Fatalf("Merge() = %+v, %v", m, err)
	}
	want := fmt.Sprintf(`{"t":%d,"kind":"message","self":"c","run":"r","bound":-1,`, h.read(5))
	if !strings.Contains(b.String(), want) {
		t.Errorf("no line with %s in\n%s", want, b.String())
	}
}

// one returns an event of each kind with values.
func one() []events.Event {
	at := events.Coordinate{Vec: []float64{1, 2, 3}, Height: 4, Error: 0.5}
	proxy := &events.Proxy{At: at, Delay: 10, Scale: 2, PerKB: 0.1, Error: 0.2, Samples: 5}
	times := events.Times{Connect: 10, FirstByte: 20, Body: 5}
	return []events.Event{
		&events.Start{Schema: 1, Strategy: "proxy"},
		&events.Mark{Text: "killed", Peer: "me"},
		&events.Message{Text: "claimed subnet", Subnet: "192.0.2.0/24",
			Details: map[string]string{"epoch": "1"}},
		&events.Decision{Subnet: "192.0.2.0/24", Choice: "me", Proxy: proxy,
			Candidates: []events.Candidate{{Peer: "me", At: at}, {Peer: "other", At: at}},
			Evidence:   []events.Evidence{{Peer: "other", At: at, Times: times}}},
		&events.State{At: at, Queued: 7, Load1: 1.5},
		&events.Lease{Subnet: "192.0.2.0/24", Epoch: 1, Phase: "owned", Proxy: proxy},
		&events.Fetch{Subnet: "192.0.2.0/24", Outcome: "ok", Status: 200, Bytes: 1000, Times: times,
			Predicted: 50},
		&events.Page{URL: "http://a.example/", Outcome: "ok", Status: 200, Links: 3},
		&events.Page{URL: "http://a.example/", Outcome: "ok", Status: 200, Links: 3},
		&events.Fetch{Subnet: "192.0.2.0/24", Outcome: "timeout"},
		&events.Sample{Subnet: "192.0.2.0/24", Peer: "other", At: at, Outcome: "ok", Times: times},
		&events.Review{Subnet: "192.0.2.0/24", Better: "other", Gain: 0.2},
		&events.Batch{Peer: "other", Hosts: 1, URLs: 20, Accepted: 19},
		&events.Exchange{Peer: "other", ID: 1, Sent: []int64{1}, Received: []int64{2}, At: at},
		&events.Lost{Count: 1},
		&events.State{At: at},
	}
}

// kindsOf are the kinds of the events of one.
var kindsOf = []events.Kind{"start", "mark", "message", "decision", "state", "lease", "fetch",
	"page", "page", "fetch", "sample", "review", "batch", "exchange", "lost", "state"}

// small writes the events of one, a minute apart, and returns the name of the file.
func small(t *testing.T) string { return smallOf(t, &fake{self: "me", run: "r"}, "proxy") }

func smallOf(t *testing.T, f *fake, strategy string) string {
	t.Helper()
	for i, e := range one() {
		if s, ok := e.(*events.Start); ok {
			s.Strategy = strategy
		}
		f.add(float64(i)*60e6, e)
		e.Head().Kind = kindsOf[i]
	}
	return write(t, []*fake{f})[0]
}

// Every kind is written to a file of its own, with the names and values of the JSON, which the
// reader of the library opens; parquet_integration_test.go has another one.
func TestParquet(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	counts, err := ExportParquet(dir, []string{small(t)})
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != len(events.Kinds()) || counts["page"] != 2 {
		t.Errorf("exported %v", counts)
	}
	type candidate struct {
		Peer string  `parquet:"peer"`
		Wait float64 `parquet:"wait_ms"`
		At   struct {
			Vec []float64 `parquet:"vec"`
		} `parquet:"at"`
	}
	rows, err := parquet.ReadFile[struct {
		T          int64       `parquet:"t"`
		Self       string      `parquet:"self"`
		Candidates []candidate `parquet:"candidates"`
		Proxy      *struct {
			Delay float64 `parquet:"delay_ms"`
		} `parquet:"proxy"`
	}](filepath.Join(dir, "decision.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Self != "me" || rows[0].T < epoch ||
		len(rows[0].Candidates) != 2 ||
		rows[0].Candidates[1].Peer != "other" || rows[0].Candidates[1].At.Vec[2] != 3 ||
		rows[0].Proxy == nil || rows[0].Proxy.Delay != 10 {
		t.Errorf("decision.parquet has %+v", rows)
	}
}

// The figures have what the events say.
func TestFigures(t *testing.T) {
	t.Parallel()
	var out experimenttest.Out
	e := Figures([]string{small(t)}, "", "", "command")
	if err := e.Run(t.Context(), experiment.Params{}, &out); err != nil {
		t.Fatal(err)
	}
	s := out.Tables["summary"][0].(summaryRow)
	if s.Pages != 1 || s.Repeated != 0.5 || s.Connections != 1 || s.Failed != 1 ||
		s.Estimations != 1 || s.Claims != 1 || s.Links != 6 || s.Minutes != 15 || s.Wrong != 1 {
		t.Errorf("summary = %+v", s)
	}
	b := out.Tables["batches"][0].(batchRow)
	if b.Subnets != 1 || b.Seconds != 60 || b.Updates != 1 || b.Error != 0.2 {
		t.Errorf("batches = %+v", b)
	}
	points := map[string]int{}
	for _, p := range out.Plots {
		if len(p.Series) != 2 && p.Name[:1] == "5" && p.X == "minutes" {
			t.Errorf("plot %s has %d series, want one for the strategy and one for marks", p.Name,
				len(p.Series))
		}
		points[p.Name] = len(p.Series[0].X)
	}
	for name, least := range map[string]int{"5.1-distance": 60, "5.1-error": 70, "5.2-urls": 3,
		"5.4-rate": 15, "5.6-distance": 60, "5.7-cdf": 99, "5.9-updates": 1, "5.11-load": 60,
		"4.2.3-queued": 60} {
		if points[name] < least {
			t.Errorf("plot %s has %d points, want at least %d", name, points[name], least)
		}
	}
	res, err := experiment.Run{Experiment: e}.Do(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Data) != 1 || res.Data[0].SHA256 == "" {
		t.Errorf("data = %+v", res.Data)
	}
	if err := experiment.WriteDir(t.TempDir(), []*experiment.Result{res}); err != nil {
		t.Error(err)
	}
	if err := Figures(write(t, []*fake{{}}), "", "", "").Run(t.Context(), experiment.Params{},
		&out); !errors.Is(err, ErrEmpty) {
		t.Errorf("without events: %v, want ErrEmpty", err)
	}
}

// Logs of two experiments are compared although a day is between them: what one of them did to its
// peers is not in the time of the other.
func TestFiguresOfTwoLogs(t *testing.T) {
	t.Parallel()
	later := &fake{self: "me", run: "s", offset: 86_400e6}
	var out experimenttest.Out
	e := Figures([]string{small(t), smallOf(t, later, "random")}, "", "", "command")
	if err := e.Run(t.Context(), experiment.Params{}, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range out.Tables["summary"] {
		if s := row.(summaryRow); s.Minutes != 15 {
			t.Errorf("strategy %s ran for %v minutes, want 15", s.Strategy, s.Minutes)
		}
	}
	if n := len(out.Tables["summary"]); n != 2 {
		t.Errorf("%d strategies, want 2", n)
	}
}
