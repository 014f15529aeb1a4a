package assign_test

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go4.org/netipx"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	"peerd/coords/registry"
)

// script is a decision with all that happens on its way: one file of testdata
// holds those of one strategy. Its lines:
//
//	case WORDS                 begins one
//	config KEY=VALUE…          threshold=50ms max=12 branching=2 leaf=true
//	                           company=probed|trusted|ignored|verified
//	range FIRST-LAST|PREFIX [HOLDER]   an entry of the registry's table
//	subnet PREFIX              what is to be assigned
//	self NAME                  who decides; the first candidate otherwise
//	candidate NAME [at X,Y] [place claimed|measured|refuted] [addr IP] [on LAT,LON]
//	          [takes MS|fails|silent]
//	known PREFIX OWNER [took NAME=MS…] [at X,Y]
//	place IP LAT,LON           what the Locator knows
//	no probes                  CanProbe is false
//	want probe|choose NAME     the steps, in their order
//	target PREFIX              what is delegated (ipmicra)
type script struct {
	name, strategy string
	line           int
	config         map[string]string
	entries        []registry.Entry
	e              assign.Evidence
	takes          map[string]string
	known          assigntest.Delegations
	places         map[netip.Addr][2]float64
	want           []string
	target         string
}

func TestScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	for _, path := range files {
		strategy := strings.TrimSuffix(filepath.Base(path), ".txt")
		t.Run(strategy, func(t *testing.T) {
			for _, s := range readScripts(t, path, strategy) {
				t.Run(s.name, func(t *testing.T) { s.run(t) })
			}
		})
	}
}

func readScripts(t *testing.T, path, strategy string) []*script {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []*script
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(strings.SplitN(lines.Text(), "#", 2)[0])
		if len(words) == 0 {
			continue
		}
		if words[0] == "case" {
			out = append(out, &script{
				name: strings.Join(words[1:], " "), strategy: strategy, line: n,
				config: map[string]string{},
				takes:  map[string]string{}, places: map[netip.Addr][2]float64{},
				e: assign.Evidence{CanProbe: true},
			})
			continue
		}
		if err := out[len(out)-1].take(words); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
	}
	return out
}

// take reads a line.
func (s *script) take(words []string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	switch words[0] {
	case "config":
		for _, w := range words[1:] {
			k, v, _ := strings.Cut(w, "=")
			s.config[k] = v
		}
	case "range":
		holder := ""
		if len(words) > 2 {
			holder = words[2]
		}
		if !strings.Contains(words[1], "-") {
			s.entries = append(s.entries, registry.Entry{Prefix: netip.MustParsePrefix(words[1]),
				Holder: holder})
			break
		}
		r, err := netipx.ParseIPRange(words[1])
		if err != nil {
			return err
		}
		for _, p := range r.Prefixes() {
			s.entries = append(s.entries, registry.Entry{Prefix: p, Holder: holder})
		}
	case "subnet":
		s.e.Subnet = netip.MustParsePrefix(words[1])
	case "self":
		s.e.Self = words[1]
	case "candidate":
		c := assign.Candidate{ID: words[1], At: coords.Coordinate{Vec: []float64{0, 0}}}
		for i := 2; i < len(words); i += 2 {
			switch words[i] {
			case "at":
				c.At.Vec = pair(words[i+1])
			case "addr":
				c.Addr = netip.MustParseAddr(words[i+1])
			case "on":
				c.Addr = netip.AddrFrom4([4]byte{9, 9, 9, byte(len(s.places))})
				s.places[c.Addr] = [2]float64(pair(words[i+1]))
			case "place":
				c.Place = map[string]coords.Standing{"claimed": coords.Claimed,
					"measured": coords.Measured, "refuted": coords.Refuted}[words[i+1]]
			case "takes":
				s.takes[c.ID] = words[i+1]
			case "fails", "silent":
				s.takes[c.ID] = words[i]
				i--
			}
		}
		s.e.Candidates = append(s.e.Candidates, c)
		if s.e.Self == "" {
			s.e.Self = c.ID
		}
	case "known":
		d := assign.Delegation{Subnet: netip.MustParsePrefix(words[1]), Owner: words[2]}
		for i := 3; i < len(words); i++ {
			if name, ms, ok := strings.Cut(words[i], "="); ok {
				if d.Probes == nil {
					d.Probes = map[string]time.Duration{}
				}
				d.Probes[name] = millis(ms)
			}
			if words[i] == "at" {
				d.Proxy = &coords.Proxy{At: coords.Coordinate{Vec: pair(words[i+1])}, Scale: 1}
			}
		}
		s.known = append(s.known, d)
	case "place":
		s.places[netip.MustParseAddr(words[1])] = [2]float64(pair(words[2]))
	case "no":
		s.e.CanProbe = false
	case "want":
		s.want = append(s.want, words[1]+" "+words[2])
	case "target":
		s.target = words[1]
	default:
		return fmt.Errorf("%q is unknown", words[0])
	}
	return nil
}

func pair(s string) []float64 {
	a, b, _ := strings.Cut(s, ",")
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if errX != nil || errY != nil {
		panic(s + " is no pair")
	}
	return []float64{x, y}
}

func millis(s string) time.Duration {
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// build makes the strategy that the script is of.
func (s *script) build(t *testing.T) assign.Strategy {
	t.Helper()
	threshold := assign.DefaultThresholdConfig()
	ipmicra := assign.DefaultIPMicraConfig()
	himicra := assign.DefaultHiMicraConfig()
	for k, v := range s.config {
		switch k {
		case "threshold":
			threshold.Threshold, _ = time.ParseDuration(v)
		case "max":
			threshold.ProbesMax, _ = strconv.Atoi(v)
		case "branching":
			himicra.Branching, _ = strconv.Atoi(v)
		case "leaf":
			ipmicra.Leaf = v == "true"
		case "company":
			ipmicra.Company = assign.CompanyRule(slices.Index([]string{"probed",
				"trusted", "ignored", "verified"}, v))
		default:
			t.Fatalf("config %s is unknown", k)
		}
	}
	ipmicra.ThresholdConfig, himicra.ThresholdConfig = threshold, threshold
	var table *registry.Table
	if len(s.entries) > 0 {
		var err error
		if table, err = registry.Build(s.entries); err != nil {
			t.Fatal(err)
		}
	}
	locate := func(a netip.Addr) (lat, lon float64, ok bool) {
		p, ok := s.places[a]
		return p[0], p[1], ok
	}
	switch s.strategy {
	case "geo":
		return must(assign.NewGeo(locate))
	case "proxy":
		return must(assign.NewProxy(assign.DefaultProxyConfig()))
	case "probe":
		return must(assign.NewProbe(assign.DefaultProbeConfig()))
	case "sequential":
		return must(assign.NewSequential(threshold))
	case "himicra":
		return must(assign.NewHiMicra(himicra))
	case "ipmicra":
		return must(assign.NewIPMicra(ipmicra, table))
	case "ipmicra-proxy":
		cfg := assign.DefaultIPMicraProxyConfig()
		cfg.IPMicraConfig = ipmicra
		return must(assign.NewIPMicraProxy(cfg, table))
	case "random":
		return assign.NewRandom(assign.RandomConfig{Seed: 1})
	case "hash":
		return must(assign.NewHash(assign.DefaultHashConfig()))
	case "keep":
		return assign.KeepStrategy{}
	}
	t.Fatalf("no strategy %s", s.strategy)
	return nil
}

// run plays the decision and compares its steps.
func (s *script) run(t *testing.T) {
	strategy := s.build(t)
	s.known.Sort()
	s.e.Delegations = s.known
	var got []string
	for len(got) < 30 {
		step, err := strategy.Next(s.e)
		if err != nil {
			t.Fatal(err)
		}
		if step.Choice != "" {
			got = append(got, "choose "+step.Choice)
			break
		}
		got = append(got, "probe "+step.Probe)
		i := slices.IndexFunc(s.e.Candidates, func(c assign.Candidate) bool {
			return c.ID == step.Probe
		})
		sample := coords.Sample{Peer: step.Probe, At: s.e.Candidates[i].At}
		switch takes := s.takes[step.Probe]; takes {
		case "silent":
			if s.e.Exclude == nil {
				s.e.Exclude = map[string]bool{}
			}
			s.e.Exclude[step.Probe] = true
			continue
		case "fails":
			sample.Failed = true
		default:
			sample.Connect, sample.FirstByte = millis(takes), millis(takes)
			if step.Via == assign.ViaPage {
				sample.Bytes = 1
			}
		}
		s.e.Samples = append(s.e.Samples, sample)
	}
	if !slices.Equal(got, s.want) {
		t.Errorf("line %d: got\n\t%s\nwant\n\t%s", s.line, strings.Join(got, "\n\t"),
			strings.Join(s.want, "\n\t"))
	}
	if s.target != "" {
		if got := strategy.(interface {
			Target(netip.Prefix) netip.Prefix
		}).Target(s.e.Subnet); got.String() != s.target {
			t.Errorf("line %d: target %s, want %s", s.line, got, s.target)
		}
	}
}
