package crawlsim

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords/assign"
	_ "peerd/internal/rapidtest"
	"peerd/lab/emulate/wan"
)

func proxy(string) (assign.Strategy, error) { return assign.NewProxy(assign.DefaultProxyConfig()) }

func testWorld(peers, servers int, seed uint64) *World {
	places := wan.Cities()
	return NewWorld(wan.NewWorld(places, seed), places, peers, servers, PlanetLab(), seed)
}

func testConfig(w *World, seed uint64) Config {
	c := Default()
	c.World, c.Seed, c.Strategy, c.Pages = w, seed, proxy, 20
	return c
}

func run(t *testing.T, c Config) *Sim {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// Events run in the order of their time and, at equal times, of their creation, also if they
// are created while others run.
func TestClockOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var c clock
		type mark struct {
			at  time.Duration
			seq int
		}
		var done []mark
		made := 0
		var plan func(depth int)
		plan = func(depth int) {
			d := time.Duration(rapid.IntRange(-2, 5).Draw(t, "after"))
			at, seq := c.now+max(d, 0), made
			made++
			again := depth < 3 && rapid.Bool().Draw(t, "again")
			c.after(d, func() {
				if c.now != at {
					t.Fatalf("event ran at %v, want %v", c.now, at)
				}
				done = append(done, mark{at, seq})
				if again {
					plan(depth + 1)
					plan(depth + 1)
				}
			})
		}
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			plan(0)
		}
		for c.next(math.MaxInt64) {
		}
		if len(done) != made {
			t.Fatalf("%d events ran, want %d", len(done), made)
		}
		for i := 1; i < len(done); i++ {
			if a, b := done[i-1], done[i]; b.at < a.at || a.at == b.at && b.seq < a.seq {
				t.Fatalf("event %d ran before event %d", a.seq, b.seq)
			}
		}
	})
}

func TestClockEnd(t *testing.T) {
	t.Parallel()
	var c clock
	c.at(2, func() { t.Error("ran an event after the end") })
	if c.next(1) || c.now != 0 {
		t.Error("next() = true for an event after the end, want false")
	}
}

// n equal transfers on one line take n times as long as one. A transfer that starts later slows
// down the others, and a change of bandwidth takes effect at once.
func TestLineShares(t *testing.T) {
	t.Parallel()
	var c clock
	l := line{bps: 1000}
	ends := map[string]time.Duration{}
	begin := func(name string, at time.Duration, bytes float64) {
		c.at(at, func() { l.start(&c, bytes, func() { ends[name] = c.now }) })
	}
	begin("a", 0, 1000)
	begin("b", 0, 1000)
	begin("c", 3*time.Second, 1000)
	c.at(3500*time.Millisecond, func() { l.set(&c, 500) })
	begin("d", 10*time.Second, 500)
	begin("e", 10500*time.Millisecond, 125)
	for c.next(math.MaxInt64) {
	}
	want := map[string]time.Duration{
		"a": 2 * time.Second, "b": 2 * time.Second,
		"c": 4500 * time.Millisecond,
		// d has 250 bytes at 10.5 s; e needs 0.5 s at half of the line, d the rest alone.
		"e": 11 * time.Second, "d": 11250 * time.Millisecond,
	}
	for name, w := range want {
		if d := ends[name] - w; d < -time.Microsecond || d > time.Microsecond {
			t.Errorf("%s ends at %v, want %v", name, ends[name], w)
		}
	}
}

func TestEqualRuns(t *testing.T) {
	t.Parallel()
	w := testWorld(8, 12, 3)
	a, b, other := run(t, testConfig(w, 5)), run(t, testConfig(w, 5)), run(t, testConfig(w, 6))
	if !reflect.DeepEqual(a.Downloads(), b.Downloads()) || a.Counts() != b.Counts() {
		t.Error("runs with equal configurations differ")
	}
	if reflect.DeepEqual(a.Downloads(), other.Downloads()) {
		t.Error("runs with different seeds are equal")
	}
}

// Every page is fetched once, or given up after triesMax failures, whichever peer owns the
// subnet. No server gets two requests at a time or within the gap.
func TestEveryPageOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		c := testConfig(testWorld(10, 30, seed), seed)
		c.Workers = 2 // queues
		s := run(t, c)
		type key struct{ server, page int }
		fetched, failed := map[key]int{}, map[key]int{}
		last := map[int]time.Duration{}
		for _, d := range s.Downloads() {
			k := key{d.Server, d.Page}
			if d.Failed {
				failed[k]++
			} else {
				fetched[k]++
			}
			if before, ok := last[d.Server]; ok && d.At < before+c.Gap {
				t.Fatalf("server %d: request at %v, after the end of one at %v", d.Server, d.At,
					before)
			}
			last[d.Server] = d.At + d.Took
		}
		for _, n := range s.Subnets() {
			if n.Pages+n.Abandoned != c.Pages || !n.Decided {
				t.Errorf("server %d: %d pages and %d given up, want %d", n.Server, n.Pages,
					n.Abandoned, c.Pages)
			}
			for p := range c.Pages {
				k := key{n.Server, p}
				if fetched[k] > 1 || fetched[k] == 0 && failed[k] != triesMax ||
					failed[k] > triesMax {
					t.Errorf("%v: fetched %d times, failed %d times", k, fetched[k], failed[k])
				}
			}
		}
		counts := s.Counts()
		if counts.Pages+counts.GivenUp != 30*c.Pages || counts.Pages != len(fetched) {
			t.Errorf("%+v", counts)
		}
	}
}

// Where nothing changes, the decision has measured what is worth it: few pages go to scouts.
func TestScoutsOfNewSubnetsAreFew(t *testing.T) {
	t.Parallel()
	places := wan.Cities()
	c := testConfig(NewWorld(wan.NewWorld(places, 4), places, 10, 40, Plain(), 4), 4)
	c.Pages = 30
	if n := run(t, c).Counts(); n.Scouts > n.Pages/12 {
		t.Errorf("%d of %d pages by scouts, want one in twelve at most", n.Scouts, n.Pages)
	}
}

// No phase of a sample is negative, and their sum is the measured time.
func TestSamplesAddUp(t *testing.T) {
	t.Parallel()
	s := run(t, testConfig(testWorld(6, 12, 2), 2))
	for _, n := range s.Subnets() {
		if first := n.samples[0]; first.Connect <= 0 || first.FirstByte != 0 {
			t.Errorf("the robots.txt of a server shows %+v, want a round trip", first)
		}
		for _, x := range n.samples[1:] {
			if err := x.Validate(len(x.At.Vec)); err != nil || !x.Failed &&
				(x.FirstByte <= 0 || x.Body <= 0 || x.Reused != (x.Connect == 0)) {
				t.Fatalf("%+v: %v", x, err)
			}
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	t.Parallel()
	w := testWorld(2, 2, 1)
	for name, change := range map[string]func(*Config){
		"world":    func(c *Config) { c.World = &World{} },
		"strategy": func(c *Config) { c.Strategy = nil },
		"pages":    func(c *Config) { c.Pages = 0 }, "workers": func(c *Config) { c.Workers = 0 },
	} {
		c := testConfig(w, 1)
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkCrawl(b *testing.B) {
	w := testWorld(100, 200, 1)
	for b.Loop() {
		s, err := New(testConfig(w, 1))
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Run(b.Context(), nil); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(s.Counts().Events)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
	}
}
