package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/node/config"
	"peerd/node/emulate/web"
)

// TestMain lets the test binary be the process inside.
func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// Whatever the script, what it starts runs, what it kills does not, and at its
// end all is as at its begin, but for a peer that is gone for good.
func TestScriptsComeToAnEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := options{
			peers: rapid.IntRange(2, 12).Draw(t, "peers"), seed: rapid.Uint64().Draw(t, "seed"),
			length: time.Duration(rapid.IntRange(5, 600).Draw(t, "seconds")) * time.Second,
			down:   time.Duration(rapid.IntRange(1, 90).Draw(t, "down")) * time.Second, cut: time.Minute,
			scenario: rapid.SampledFrom(scenarios).Draw(t, "scenario"),
		}
		steps := script(o, true)
		if !reflect.DeepEqual(steps, script(o, true)) {
			t.Fatal("equal options, other steps")
		}
		if !slices.IsSortedFunc(steps, func(a, b step) int { return int(a.At - b.At) }) {
			t.Fatal("not in order")
		}
		state, cuts, out := map[int]kind{}, map[int]bool{}, 0
		for _, s := range steps {
			if s.At < 0 || s.At > o.length {
				t.Fatalf("%v at %v of %v", s, s.At, o.length)
			}
			switch was := state[s.Peer]; {
			case s.Kind == cut:
				if cuts[s.Cut] || len(s.Pairs) == 0 {
					t.Fatalf("%v is made twice, or of nothing", s)
				}
				cuts[s.Cut] = true
				continue
			case s.Kind == heal:
				if !cuts[s.Cut] {
					t.Fatalf("%v was not made", s)
				}
				delete(cuts, s.Cut)
				continue
			case s.Kind == start && was != kill && was != leave, s.Kind == resume && was != pause,
				s.Kind != start && s.Kind != resume && was != "":
				t.Fatalf("%v when it is %q", s, was)
			case s.Kind == start || s.Kind == resume:
				out--
				delete(state, s.Peer)
				continue
			}
			state[s.Peer] = s.Kind
			if out++; out > max(1, o.peers*3/8) {
				t.Fatalf("%d of %d peers are out", out, o.peers)
			}
		}
		gone := 0
		if o.scenario == "lost" || o.scenario == "leave" {
			gone = 1
		}
		if len(state) != gone || len(cuts) != 0 {
			t.Fatalf("at the end %v are out and %v cut", state, cuts)
		}
	})
}

func TestPartitionCutsBothWays(t *testing.T) {
	steps := script(options{peers: 8, length: time.Minute, cut: time.Hour, scenario: "partition"}, true)
	if len(steps) != 2 || len(steps[0].Pairs) != 2*4*4 || steps[1].At-steps[0].At != 30*time.Second {
		t.Fatalf("%+v", steps)
	}
	for _, p := range steps[0].Pairs {
		if !slices.Contains(steps[0].Pairs, pair{p.To, p.From}) {
			t.Errorf("%v one way only", p)
		}
	}
	for _, s := range script(options{peers: 8, length: time.Hour, down: time.Minute, scenario: "mixed"}, false) {
		if s.Kind == cut {
			t.Fatalf("%v where nothing can be cut", s)
		}
	}
}

func TestPeersAreToldByTheirAgent(t *testing.T) {
	for i := range 50 {
		if got := peerOf(config.UserAgent(contact(i))); got != i {
			t.Errorf("%d, want %d", got, i)
		}
	}
	for _, agent := range []string{"", "curl/8", config.UserAgent(""), config.UserAgent(contact(99999999999999999))[:30]} {
		if got := peerOf(agent); got != -1 {
			t.Errorf("%q is peer %d", agent, got)
		}
	}
}

// A past is a history that a test makes up; times are in seconds.
type past struct{ history }

var epoch = time.Unix(1_000_000, 0)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

// sites are four, with ten pages each, in subnets of their own.
func newPast() *past {
	p := &past{history{peers: 4, gap: time.Second, begin: epoch, end: at(300), outcome: "quiet"}}
	for i := range 4 {
		p.sites = append(p.sites, web.Site{Site: i, Host: fmt.Sprint("h", i), Pages: 10, Addrs: []netip.Addr{addresses(10).site(i)}})
	}
	return p
}

func (p *past) fetch(peer, site, page int, from, to float64) {
	p.hits = append(p.hits, web.Hit{
		Start: at(from), End: at(to), Site: site, Host: p.sites[site].Host, Path: fmt.Sprint("/", page), Page: true,
		Status: 200, Addr: p.sites[site].Addrs[0], Agent: config.UserAgent(contact(peer)),
	})
}

// says enters a look at which the peers own sites.
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
	p.events = append(p.events, event{step: step{Kind: k, Peer: peer}, Begin: at(s), End: at(until)})
}

func TestTakeoverIsTimed(t *testing.T) {
	p := newPast()
	p.fetch(0, 0, 0, 1, 1.1)
	p.fetch(0, 1, 0, 1, 1.1)
	for i := range 10 {
		p.fetch(0, 3, i, 1+float64(2*i)/10, 1.1+float64(2*i)/10) // all of it: nobody has to go on
	}
	p.says(9, map[int][]int{0: {0, 1, 2, 3}, 1: {}})
	p.happens(10, 10, lose, 0)
	p.fetch(2, 0, 1, 10.5, 10.6) // was under way for the old owner
	p.says(40, map[int][]int{1: {0, 1}})
	p.fetch(1, 1, 2, 45, 45.1)
	p.fetch(1, 0, 2, 52, 52.1) // subnet 2 is never asked
	r := judge(&p.history)
	want := Takeover{Kind: lose, Peer: 0, At: 10, Down: 290, Subnets: 3, Taken: 2, MedianSeconds: 42, MaxSeconds: 42}
	if len(r.Takeovers) != 1 || r.Takeovers[0] != want {
		t.Errorf("%+v, want %+v", r.Takeovers, want)
	}
	if r.Scenario = "lost"; !failed(&r, "subnets that nobody asked") || failed(&r, "first fetch of a new owner") {
		t.Errorf("%+v", r.Checks)
	}
}

// failed says whether a check of that name did.
func failed(r *Report, what string) bool {
	r.Checks = nil
	r.check()
	return slices.ContainsFunc(r.Checks, func(c Check) bool { return strings.Contains(c.What, what) && !c.OK })
}

func TestRestartIsReturn(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0}})
	p.happens(10, 10, kill, 0)
	p.happens(15, 15, start, 0)
	p.fetch(0, 0, 1, 17, 17.1)
	r := judge(&p.history)
	want := Takeover{Kind: kill, Peer: 0, At: 10, Down: 5, Subnets: 1, Returned: 1, ReturnMaxSeconds: 2}
	if len(r.Takeovers) != 1 || r.Takeovers[0] != want {
		t.Errorf("%+v, want %+v", r.Takeovers, want)
	}
}

func TestIdleAroundALeave(t *testing.T) {
	p := newPast()
	p.says(9, map[int][]int{0: {0, 1, 2}})
	p.fetch(0, 0, 0, 0, .1) // then a pause that is nobody's fault
	p.fetch(0, 0, 1, 9, 9.1)
	p.fetch(0, 1, 0, 9, 9.1)
	p.fetch(0, 2, 0, 9, 9.1)
	p.happens(10, 14, leave, 0)
	p.fetch(1, 0, 2, 16.1, 16.2) // 7 s after 9.1, of which 1 s is the gap
	p.fetch(1, 0, 3, 30, 30.1)   // after a pause that is the new owner's
	p.fetch(1, 1, 1, 10.1, 10.2) // and on before the end
	p.fetch(1, 1, 2, 15, 15.1)
	r := judge(&p.history)
	want := Leave{Peer: 0, At: 10, Took: 4, Subnets: 3, Orphans: 1, MedianIdleSeconds: 6, MaxIdleSeconds: 6}
	if len(r.Leaves) != 1 || r.Leaves[0] != want {
		t.Errorf("%+v, want %+v", r.Leaves, want)
	}
	if r.Scenario = "leave"; !failed(&r, "idle") || !failed(&r, "nobody asked") {
		t.Errorf("%+v", r.Checks)
	}
}

func TestHealing(t *testing.T) {
	p := newPast()
	cutting := step{Kind: cut, Peer: -1, Pairs: []pair{{0, 2}, {2, 0}, {0, 3}, {3, 0}, {1, 2}, {2, 1}, {1, 3}, {3, 1}}}
	p.events = append(p.events, event{step: cutting, Begin: at(10), End: at(10)})
	cutting.Kind = heal
	p.events = append(p.events, event{step: cutting, Begin: at(100), End: at(100)})
	for s := range 120 {
		owns := map[int][]int{0: {0}, 2: {1}}
		if s == 20 { // once: asked while it changed hands
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
	want := Cut{At: 10, Lasted: 90, Pairs: 8, Doubled: 1, OneOwnerSeconds: 6, PagesA: 1, PagesB: 2, Busy: 2, Served: 2}
	if len(r.Cuts) != 1 || r.Cuts[0] != want {
		t.Errorf("%+v, want %+v", r.Cuts, want)
	}
	if len(r.Doubles) != 0 {
		t.Errorf("%v have two owners at the end", r.Doubles)
	}
}

func TestRefetchedAndRepeated(t *testing.T) {
	p := newPast()
	p.fetch(0, 0, 0, 1, 1.1)
	p.fetch(0, 0, 1, 60, 60.1)
	p.fetch(0, 0, 2, 69.9, 71) // was cut off: not there when it died
	p.hits[2].Page = false
	p.happens(70, 70, lose, 0)
	p.fetch(1, 0, 0, 100, 100.1)
	p.fetch(1, 0, 1, 110, 110.1)
	p.fetch(1, 0, 2, 120, 120.1)
	p.fetch(2, 0, 2, 130, 130.1)
	r := judge(&p.history)
	if want := (Refetched{Peer: 0, ArchivedThere: 2, InFlight: 2, Again: 3, Old: 1}); len(r.Refetched) != 1 || r.Refetched[0] != want {
		t.Errorf("%+v, want %+v", r.Refetched, want)
	}
	r.Repeats.List = nil
	if want := (Repeats{Total: 3, ByOther: 3}); !reflect.DeepEqual(r.Repeats, want) {
		t.Errorf("%+v, want %+v", r.Repeats, want)
	}
}

// Eight processes would be slow on a small machine; three show that the tool
// works from the build to the verdict, and that nothing is left.
func TestChaosEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	settings := t.TempDir() + "/quick.toml"
	quick := "[overlay]\nbatch_max_age = '300ms'\nnursery_age = '300ms'\nnursery_urls = 8\nsettle = '300ms'\n"
	if err := os.WriteFile(settings, []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, said bytes.Buffer
	err := run(t.Context(), []string{
		"--peers", "3", "--sites", "4", "--pages", "60", "--gap", "100ms", "--for", "8s", "--down", "2s", "--settle", "25s", "--warm", "0s",
		"--scenario", "kills", "--seed", "5", "--config", settings, "--json",
	}, strings.NewReader(""), &out, &said)
	var r Report
	if jerr := json.Unmarshal(out.Bytes(), &r); jerr != nil {
		t.Fatalf("%v, %v in %q\n%s", err, jerr, out.String(), said.String())
	}
	if err != nil || !r.ok() {
		t.Logf("%s\n%s", said.String(), r.table())
	}
	// Whether peerd holds what it must is for the runs of the tool to say; here
	// its figures have to be there.
	if r.PagesExpected != 60 || r.PagesFetched < 30 || r.Faults[kill] == 0 || len(r.Takeovers) != r.Faults[kill] || r.Foreign != 0 {
		t.Errorf("%+v\n%s", r, said.String())
	}
	if r.Politeness.Violations > 0 || len(r.Crashes) > 0 {
		t.Errorf("%d violations, crashes %q", r.Politeness.Violations, r.Crashes)
	}
}
