package testnet

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/gologshim"
	"go.uber.org/goleak"

	"peerd/lab/emulate"
)

// TestMain silences libp2p, which warns that emulated connections have no TCP keep-alive.
func TestMain(m *testing.M) {
	gologshim.SetDefaultHandler(slog.DiscardHandler)
	goleak.VerifyTestMain(m)
}

// If Run is interrupted while peers start or crawl, it returns the error of its context and
// removes its directory.
func TestInterrupted(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second} {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		_, err := Run(ctx, Options{Peers: 3, Sites: 3, Pages: 3000, Seed: 1, Strategy: "proxy"})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: Run() = %v, want %v", after, err, context.DeadlineExceeded)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("after %v: %d entries left in the temporary directory, %v; want none", after,
				len(left), err)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Options{Peers: 8, Sites: 24, Pages: 1000, Strategy: "proxy"}
	if err := good.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
	for want, change := range map[string]func(*Options){
		"--peers 0: want 1 to 200":           func(o *Options) { o.Peers = 0 },
		"--peers 100000: want 1 to 200":      func(o *Options) { o.Peers = 100000 },
		"--sites 2001: want 1 to 2000":       func(o *Options) { o.Sites = 2001 },
		"--pages 23: want at least one":      func(o *Options) { o.Pages = 23 },
		"--pages 1000001: want at least one": func(o *Options) { o.Pages = 1000001 },
		`--strategy "best": want one of`:     func(o *Options) { o.Strategy = "best" },
		`--scenario "flood": want one of`:    func(o *Options) { o.Scenario = "flood" },
		"--geo-error NaN: want 0 to 1":       func(o *Options) { o.GeoError = math.NaN() },
		"--cdn 1.5: want 0 to 1":             func(o *Options) { o.CDN = 1.5 },
		"--cdns 0: want 1 to 64":             func(o *Options) { o.CDN = 0.5 },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("Validate() = %v, want %s", err, want)
		}
		o.Keep = filepath.Join(t.TempDir(), "home")
		if _, err := Run(t.Context(), o); err == nil {
			t.Errorf("Run() = nil, want %s", want)
		} else if _, err := os.Stat(o.Keep); err == nil {
			t.Errorf("%s: Run made a directory before it checked its options", want)
		}
	}
}

func TestConclusion(t *testing.T) {
	good := emulate.Report{
		Strategy: "proxy", Peers: 8, PagesExpected: 100, PagesFetched: 100, Coverage: 1,
		Download: emulate.Times{P90: 110}, Oracle: emulate.Times{P90: 100},
		Random: emulate.Times{P90: 200},
	}
	for want, change := range map[string]func(*Report){
		"shown: 100 of 100 pages fetched, 0.00 % of them twice, no violation of politeness or " +
			"robots.txt; p90 0.55 times random assignment's, 1.10 times the oracle's": func(
			*Report) {
		},
		"fell short: coverage 0.9900, want 1": func(r *Report) { r.Coverage = .99 },
		"fell short: overlap 0.1000, want at most 0.005; 2 politeness violations, want 0": func(
			r *Report) {
			r.Overlap, r.PolitenessViolations = .1, 2
		},
		"fell short: 7 requests not logged, want 0": func(r *Report) { r.Unlogged = 7 },
		"fell short: p90 is 1.50 times that of random assignment, want less than 1": func(
			r *Report) {
			r.Download.P90 = 300
		},
	} {
		r := Report{Report: good}
		change(&r)
		r.conclude(DefaultBounds)
		if got := r.Conclusion(); got != want {
			t.Errorf("Conclusion() = %q, want %q", got, want)
		}
		if table := r.Table(); !strings.HasSuffix(table, "\n\n"+want+"\n") {
			t.Errorf("the table does not end with %q:\n%s", want, table)
		}
	}
	// Owners that are not chosen by distance may be as far away as random ones, and a
	// scenario ends before all is crawled.
	hash := Report{Report: good}
	hash.Strategy, hash.Download.P90 = "hash", 210
	scenario := Report{Report: good, Adaptation: &Adaptation{}}
	scenario.Coverage = .3
	for _, r := range []Report{hash, scenario} {
		if r.conclude(DefaultBounds); len(r.Shortfalls) > 0 {
			t.Errorf("%s: shortfalls %q, want none", r.Strategy, r.Shortfalls)
		}
	}
}

func TestCompare(t *testing.T) {
	a := Report{Report: emulate.Report{Strategy: "proxy", Coverage: 1}}
	b := Report{Report: emulate.Report{Strategy: "hash", Coverage: .5}}
	a.conclude(DefaultBounds)
	b.conclude(DefaultBounds)
	text := Compare([]Report{a, b})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 9 || !strings.HasPrefix(lines[8], "hash fell short: coverage 0.5000") {
		t.Errorf("Compare() =\n%s\nwant two heads, three rows and what fell short with hash", text)
	}
}

// Only pages of both testnets are compared, and each site counts once.
func TestPairs(t *testing.T) {
	t.Parallel()
	base, other := make(pageTimes), make(pageTimes)
	for i := range 9 { // a site with many pages, all as far away in both
		base.add(0, strconv.Itoa(i), 50*time.Millisecond)
		other.add(0, strconv.Itoa(i), 50*time.Millisecond)
	}
	base.add(1, "/", 10*time.Millisecond)
	other.add(1, "/", 40*time.Millisecond)
	other.add(1, "/", time.Second) // fetched again
	base.add(1, "/only", time.Second)
	other.add(2, "/only", time.Second)
	p := other.compare(base)
	if p.pages != 10 || p.faster != 0 || math.Abs(p.slower-.1) > 1e-9 ||
		math.Abs(p.ratio-2) > .001 || !(p.low < 1 && p.high > 4) {
		t.Errorf("pairs are %+v, want 10 pages, a tenth of them slower, and 2 times as long", p)
	}
	if p := base.compare(other); math.Abs(p.faster-.1) > 1e-9 || math.Abs(p.ratio-.5) > .001 {
		t.Errorf("the other way round: %+v, want half as long", p)
	}
	if p := base.compare(make(pageTimes)); p.pages != 0 || !math.IsNaN(p.ratio) {
		t.Errorf("without a common page: %+v", p)
	}
}
