package chaos

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/lab/emulate/web"
	"peerd/node/config"
)

// TestMain runs the test binary as the process inside the namespaces if it is started as that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "inside" {
		if err := RunInside(context.Background(), os.Args[2:], os.Stdin, os.Stdout,
			os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// A script starts only peers that do not run and kills only peers that run. At its end all
// peers run and nothing is cut, except for a peer that is lost or has left for good.
func TestScriptEndsWithAllPeersRunning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Peers: rapid.IntRange(2, 12).Draw(t, "peers"), Seed: rapid.Uint64().Draw(t, "seed"),
			Length:   time.Duration(rapid.IntRange(5, 600).Draw(t, "seconds")) * time.Second,
			Down:     time.Duration(rapid.IntRange(1, 90).Draw(t, "down")) * time.Second,
			Cut:      time.Minute,
			Scenario: rapid.SampledFrom(Scenarios).Draw(t, "scenario"),
		}
		steps := script(o, true)
		if !reflect.DeepEqual(steps, script(o, true)) {
			t.Fatal("script() differs for equal options")
		}
		if !slices.IsSortedFunc(steps, func(a, b step) int { return int(a.At - b.At) }) {
			t.Fatal("steps are not sorted by time")
		}
		state, cuts, out := map[int]kind{}, map[int]bool{}, 0
		for _, s := range steps {
			if s.At < 0 || s.At > o.Length {
				t.Fatalf("step %v at %v, want 0 to %v", s, s.At, o.Length)
			}
			switch was := state[s.Peer]; {
			case s.Kind == cut:
				if cuts[s.Cut] || len(s.Pairs) == 0 {
					t.Fatalf("%v repeats a cut or has no pairs", s)
				}
				cuts[s.Cut] = true
				continue
			case s.Kind == heal:
				if !cuts[s.Cut] {
					t.Fatalf("%v heals a cut that does not exist", s)
				}
				delete(cuts, s.Cut)
				continue
			case s.Kind == start && was != kill && was != leave, s.Kind == resume && was != pause,
				s.Kind != start && s.Kind != resume && was != "":
				t.Fatalf("%v after %q", s, was)
			case s.Kind == start || s.Kind == resume:
				out--
				delete(state, s.Peer)
				continue
			}
			state[s.Peer] = s.Kind
			if out++; out > max(1, o.Peers*3/8) {
				t.Fatalf("%d of %d peers are down, want at most 3 of 8", out, o.Peers)
			}
		}
		gone := 0
		if o.Scenario == "lost" || o.Scenario == "leave" {
			gone = 1
		}
		if len(state) != gone || len(cuts) != 0 {
			t.Fatalf("at the end peers %v are down and cuts %v exist", state, cuts)
		}
	})
}

func TestPartitionCutsBothWays(t *testing.T) {
	steps := script(Options{Peers: 8, Length: time.Minute, Cut: time.Hour, Scenario: "partition"},
		true)
	if len(steps) != 2 || len(steps[0].Pairs) != 2*4*4 ||
		steps[1].At-steps[0].At != 30*time.Second {
		t.Fatalf("script() = %+v, want a cut of 32 directions for 30 s", steps)
	}
	for _, p := range steps[0].Pairs {
		if !slices.Contains(steps[0].Pairs, pair{p.To, p.From}) {
			t.Errorf("%v is cut in one direction only", p)
		}
	}
	for _, s := range script(Options{Peers: 8, Length: time.Hour, Down: time.Minute,
		Scenario: "mixed"}, false) {
		if s.Kind == cut {
			t.Fatalf("step %v, want no cut on a network without cuts", s)
		}
	}
}

func TestPeerOf(t *testing.T) {
	for i := range 50 {
		if got := peerOf(config.UserAgent(contact(i))); got != i {
			t.Errorf("peerOf() = %d, want %d", got, i)
		}
	}
	for _, agent := range []string{"", "curl/8", config.UserAgent(""),
		config.UserAgent(contact(99999999999999999))[:30]} {
		if got := peerOf(agent); got != -1 {
			t.Errorf("peerOf(%q) = %d, want -1", agent, got)
		}
	}
}

// A past is a synthetic history; times are in seconds.
type past struct{ history }

var epoch = time.Unix(1_000_000, 0)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// newPast returns a history of four sites with ten pages each, each in its own subnet.
func newPast() *past {
	p := &past{history{peers: 4, gap: time.Second, begin: epoch, end: at(300), outcome: "quiet"}}
	for i := range 4 {
		p.sites = append(p.sites, web.Site{Site: i, Host: fmt.Sprint("h", i), Pages: 10,
			Addrs: []netip.Addr{addresses(10).site(i)}})
	}
	return p
}

func (p *past) fetch(peer, site, page int, from, to float64) {
	p.hits = append(p.hits, web.Hit{
		Start: at(from), End: at(to), Site: site, Host: p.sites[site].Host,
		Path: fmt.Sprint("/", page), Page: true,
		Status: 200, Addr: p.sites[site].Addrs[0], Agent: config.UserAgent(contact(peer)),
	})
}

// says adds a look in which the peers report the sites that they own.
func (p *past) says(s float64, owns map[int][]int) {
	l := look{at: at(s), owns: map[int][]netip.Prefix{}}
	for peer, list := range owns {
		for _, i := range list {
			l.owns[peer] = append(l.owns[peer], subnet(p.sites[i].Addrs[0]))
		}
	}
	p.looks = append(p.looks, l)
}

func (p *past) happens(s, until float64, k kind, peer int) {
	p.events = append(p.events, event{step: step{Kind: k, Peer: peer}, Begin: at(s),
		End: at(until)})
}

func TestTakeoverIsTimed(t *testing.T) {
	p := newPast()
	p.fetch(0, 0, 0, 1, 1.1)
	p.fetch(0, 1, 0, 1, 1.1)
	for i := range 10 {
		p.fetch(0, 3, i, 1+float64(2*i)/10, 1.1+float64(2*i)/10) // all: nothing to take over
	}
	p.says(9, map[int][]int{0: {0, 1, 2, 3}, 1: {}})
	p.happens(10, 10, lose, 0)
	p.fetch(2, 0, 1, 10.5, 10.6) // a remote fetch that the old owner had requested
	p.says(40, map[int][]int{1: {0, 1}})
	p.fetch(1, 1, 2, 45, 45.1)
	p.fetch(1, 0, 2, 52, 52.1) // subnet 2 gets no request
	r := judge(&p.history)
	want := Takeover{Kind: lose, Peer: 0, At: 10, Down: 290, Subnets: 3, Taken: 2,
		MedianSeconds: 42, MaxSeconds: 42}
	if len(r.Takeovers) != 1 || r.Takeovers[0] != want {
		t.Errorf("%+v, want %+v", r.Takeovers, want)
	}
	if r.Scenario = "lost"; !failed(&r, "subnets without a request") ||
		failed(&r, "first fetch of a new owner") {
		t.Errorf("%+v", r.Checks)
	}
}

// failed reports whether a check failed that has what in its name.
func failed(r *Report, what string) bool {
	r.Checks = nil
	r.check()
	return slices.ContainsFunc(r.Checks, func(c Check) bool {
		return strings.Contains(c.What, what) && !c.OK
	})
}

func TestRestartIsReturn(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0}})
	p.happens(10, 10, kill, 0)
	p.happens(15, 15, start, 0)
	p.fetch(0, 0, 1, 17, 17.1)
	r := judge(&p.history)
	want := Takeover{Kind: kill, Peer: 0, At: 10, Down: 5, Subnets: 1, Returned: 1,
		ReturnMaxSeconds: 2}
	if len(r.Takeovers) != 1 || r.Takeovers[0] != want {
		t.Errorf("%+v, want %+v", r.Takeovers, want)
	}
}

// A subnet of which the next page is found only after the second fault of its owner was taken over
// because of that one.
func TestTakeoverIsOfLastFault(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0}})
	p.happens(10, 10, kill, 0)
	p.happens(15, 15, start, 0)
	p.says(49, map[int][]int{0: {0}})
	p.happens(50, 50, kill, 0)
	p.says(80, map[int][]int{1: {0}})
	p.fetch(1, 0, 1, 81, 81.1)
	r := judge(&p.history)
	want := []Takeover{{Kind: kill, At: 10, Down: 5},
		{Kind: kill, At: 50, Down: 250, Subnets: 1, Taken: 1, MedianSeconds: 31, MaxSeconds: 31}}
	if !slices.Equal(r.Takeovers, want) {
		t.Errorf("%+v, want %+v", r.Takeovers, want)
	}
}

// A takeover is timed from when the new owner ran, and from the end of the owners before it.
func TestTakeoverAfterOtherKills(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0, 1}})
	p.happens(10, 10, kill, 0)
	p.happens(20, 20, kill, 1)
	p.happens(30, 30, start, 1)
	p.says(40, map[int][]int{2: {1}}) // it owned the subnet, and requested no page
	p.happens(50, 50, kill, 2)
	p.happens(52, 52, kill, 3) // of no importance for either
	p.happens(53, 53, start, 3)
	p.says(60, map[int][]int{1: {0, 1}})
	p.fetch(1, 0, 1, 62, 62.1)
	p.fetch(1, 1, 1, 80, 80.1)
	r := judge(&p.history)
	want := Takeover{Kind: kill, At: 10, Down: 290, Subnets: 2, Taken: 2, MedianSeconds: 32,
		MaxSeconds: 32}
	if r.Takeovers[0] != want {
		t.Errorf("%+v, want %+v", r.Takeovers[0], want)
	}
}

func TestIdleTimeOfLeave(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0, 1, 2}})
	p.fetch(0, 0, 0, 0, .1) // followed by a pause before the leave
	p.fetch(0, 0, 1, 9, 9.1)
	p.fetch(0, 1, 0, 9, 9.1)
	p.fetch(0, 2, 0, 9, 9.1)
	p.happens(10, 14, leave, 0)
	p.fetch(1, 0, 2, 16.1, 16.2) // 7 s after 9.1, of which 1 s is the gap
	p.fetch(1, 0, 3, 30, 30.1)   // after a pause of the new owner
	p.fetch(1, 1, 1, 10.1, 10.2) // a request before the leave ends
	p.fetch(1, 1, 2, 15, 15.1)
	r := judge(&p.history)
	want := Leave{Peer: 0, At: 10, Took: 4, Subnets: 3, Orphaned: 1, MedianIdleSeconds: 6,
		MaxIdleSeconds: 6}
	if len(r.Leaves) != 1 || r.Leaves[0] != want {
		t.Errorf("%+v, want %+v", r.Leaves, want)
	}
	if r.Scenario = "leave"; !failed(&r, "idle") || !failed(&r, "without a request") {
		t.Errorf("%+v", r.Checks)
	}
	// Where the peer is soon started again, and others are cut off, subnets may wait.
	p.happens(15.5, 15.5, start, 0)
	p.fetch(1, 2, 1, 40, 40.1)
	r = judge(&p.history)
	if r.Scenario = "mixed"; failed(&r, "idle") || failed(&r, "without a request") {
		t.Errorf("%+v", r.Checks)
	}
}

func TestHealing(t *testing.T) {
	p := newPast()
	cutting := step{Kind: cut, Peer: -1, Pairs: []pair{{0, 2}, {2, 0}, {0, 3}, {3, 0}, {1, 2},
		{2, 1}, {1, 3}, {3, 1}}}
	p.events = append(p.events, event{step: cutting, Begin: at(10), End: at(10)})
	cutting.Kind = heal
	p.events = append(p.events, event{step: cutting, Begin: at(100), End: at(100)})
	for s := range 120 {
		owns := map[int][]int{0: {0}, 2: {1}}
		if s == 20 { // one look only: taken during a handover
			owns[1] = []int{1}
		}
		if s >= 60 && s <= 107 {
			owns[3] = []int{0}
		}
		p.says(float64(s), owns)
	}
	p.fetch(1, 0, 0, 20, 20.1)
	p.fetch(2, 1, 0, 30, 30.1)
	p.fetch(3, 1, 1, 40, 40.1)
	r := judge(&p.history)
	want := Cut{At: 10, Lasted: 90, Pairs: 8, Doubled: 1, OneOwnerSeconds: 7, PagesA: 1, PagesB: 2,
		Busy: 2, Served: 2}
	if len(r.Cuts) != 1 || r.Cuts[0] != want {
		t.Errorf("%+v, want %+v", r.Cuts, want)
	}
	if len(r.Doubles) != 0 {
		t.Errorf("Doubles = %v, want none", r.Doubles)
	}
}

// A subnet that has two owners is charged to the cut that was healed last of those before it, and
// for all of the time since then.
func TestDoublingIsOfOneCut(t *testing.T) {
	p := newPast()
	for i, c := range [][2]float64{{10, 20}, {30, 60}, {35, 40}, {80, 90}} {
		e := event{step: step{Kind: cut, Peer: -1, Cut: i, Pairs: []pair{{0, 1}}},
			Begin: at(c[0]), End: at(c[0])}
		p.events = append(p.events, e)
		e.Kind, e.Begin, e.End = heal, at(c[1]), at(c[1])
		p.events = append(p.events, e)
	}
	for s := range 120 {
		owns := map[int][]int{0: {0, 1}}
		if s >= 50 && s <= 95 {
			owns[1] = []int{0}
		}
		if s >= 82 && s <= 86 {
			owns[2] = []int{1}
		}
		p.says(float64(s), owns)
	}
	var got [][2]float64
	for _, c := range judge(&p.history).Cuts {
		got = append(got, [2]float64{float64(c.Doubled), c.OneOwnerSeconds})
	}
	if want := [][2]float64{{0, 0}, {1, 35}, {0, 0}, {1, 0}}; !slices.Equal(got, want) {
		t.Errorf("subnets and seconds = %v, want %v", got, want)
	}
}

// Peers do not fetch pages again to check reports, which the judge would take for faults, unless
// the file with settings says so.
func TestSettings(t *testing.T) {
	for text, want := range map[string]float64{
		"":                             0,
		"[overlay]\nreplicas = 1":      0,
		"crawl.min_delay = '2s'":       0,
		"[crawl]\ncheck_reports = 0.5": 0.5,
	} {
		o := Options{Config: filepath.Join(t.TempDir(), "settings.toml")}
		if err := os.WriteFile(o.Config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		settings, err := o.settings()
		if err != nil {
			t.Fatal(err)
		}
		p, err := newProcess(0, t.TempDir(), "", settings, &loopback{})
		if err != nil {
			t.Fatal(err)
		}
		c := config.Default()
		if err := config.Load(p.home.ConfigFile(), &c); err != nil {
			t.Fatal(err)
		}
		if got := c.Crawl.CheckReports; got != want {
			t.Errorf("with %q check_reports is %v, want %v", text, got, want)
		}
		if text == "crawl.min_delay = '2s'" && c.Crawl.MinDelay.Duration != 2*time.Second {
			t.Errorf("with %q min_delay is %v", text, c.Crawl.MinDelay)
		}
	}
}

func TestRefetchedAndRepeated(t *testing.T) {
	p := newPast()
	p.fetch(0, 0, 0, 1, 1.1)
	p.fetch(0, 0, 1, 60, 60.1)
	p.fetch(0, 0, 2, 69.9, 71) // interrupted: not stored when the peer was killed
	p.hits[2].Page = false
	p.happens(70, 70, lose, 0)
	p.fetch(1, 0, 0, 100, 100.1)
	p.fetch(1, 0, 1, 110, 110.1)
	p.fetch(1, 0, 2, 120, 120.1)
	p.fetch(2, 0, 2, 130, 130.1)
	r := judge(&p.history)
	if want := (Refetched{Peer: 0, ArchivedThere: 2, InFlight: 2, Again: 3, Old: 1}); len(
		r.Refetched) != 1 || r.Refetched[0] != want {
		t.Errorf("%+v, want %+v", r.Refetched, want)
	}
	r.Scenario = "lost"
	if !failed(&r, "fetched again") {
		t.Error("a page that replicas must have known was fetched again, and no check failed")
	}
	if r.Refetched[0].Old = 0; failed(&r, "fetched again") {
		t.Error("a check failed for pages that may have been lost with the peer")
	}
	r.Repeats.List = nil
	if want := (Repeats{Total: 3, ByOther: 3}); !reflect.DeepEqual(r.Repeats, want) {
		t.Errorf("%+v, want %+v", r.Repeats, want)
	}
}

// An interrupted run fails only on what must hold at any time, and its report says that it is
// partial.
func TestPartialReport(t *testing.T) {
	p := newPast()
	p.outcome = interrupted
	p.fetch(0, 0, 0, 1, 1.1)
	r := judge(&p.history)
	r.Scenario = "kills"
	r.checkPartial()
	if !r.ok() || !strings.Contains(r.table(), "figures so far") {
		t.Errorf("ok() = %v, want true; table:\n%s", r.ok(), r.table())
	}
	r.Politeness.Violations = 1
	r.Checks = nil
	if r.checkPartial(); r.ok() {
		t.Error("ok() = true with a politeness violation, want false")
	}
}
