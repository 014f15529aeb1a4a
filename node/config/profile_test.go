package config

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

const docs = `
name = "docs"
seeds = ["https://Docs.Example/start"]
bootstrap = ["` + onePeer + `"]
[scope]
mode = "hosts"
hosts = ["www.example", "a.example"]
exclude = ['\?print=']
[limits]
max_depth = 5
[politeness]
min_delay = "2s"
`

func TestLoadProfile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "docs.toml")
	if err := os.WriteFile(file, []byte(docs), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := LoadProfile(file)
	if err != nil {
		t.Fatal(err)
	}
	if p.Limits.MaxDepth != 5 || p.Limits.MaxURLLength != 2048 ||
		p.Politeness.MinDelay.Duration != 2*time.Second {
		t.Errorf("LoadProfile() = %+v", p)
	}
	if !regexp.MustCompile(`^docs-[0-9a-f]{16}$`).MatchString(p.NetworkID()) {
		t.Errorf("NetworkID() = %s", p.NetworkID())
	}
	if _, err := LoadProfile(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LoadProfile() of a missing file: %v, want ErrNotExist", err)
	}
}

// The template must have all keys and the default values.
func TestProfileTemplateHoldsTheDefaults(t *testing.T) {
	got, err := ParseProfile("p.toml", []byte(ProfileTemplate))
	if err != nil {
		t.Fatal(err)
	}
	want := NewProfile()
	want.Name, want.Seeds, want.Bootstrap, want.Scope = got.Name, got.Seeds, got.Bootstrap,
		got.Scope
	got.Traps.Heuristics, got.Traps.Limits = nil, nil // empty is as good as none
	got.Founders = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	shown := map[string]bool{}
	for _, s := range keyPositions([]byte(ProfileTemplate)) {
		shown[s.key] = true
	}
	for _, key := range keys(reflect.TypeFor[Profile](), "") {
		if !shown[key] {
			t.Errorf("the template lacks %s", key)
		}
	}
}

func TestParseProfileRefuses(t *testing.T) {
	const scope = "\n[scope]\nmode = 'any'\n"
	comment := "#" + strings.Repeat("x", 300<<10) // is not sent to other peers
	if _, err := ParseProfile("p.toml", []byte("name = 'x'"+scope+comment)); err != nil {
		t.Errorf("with a long comment: %v", err)
	}
	tests := []struct{ name, text, want string }{
		{"unknown key", "name = 'x'\nseed = []" + scope, `p.toml:2:1: unknown key "seed"`},
		{"no name", scope, `p.toml: name is ""`},
		{"name", "name = 'A/b'" + scope, `p.toml:1:1: name is "A/b", want 1 to 32`},
		{"no mode", "name = 'x'",
			`p.toml: scope.mode is missing, want one of hosts, domains, regex, any`},
		{"mode", "name = 'x'\n[scope]\nmode = 'all'", `p.toml:3:1: scope.mode is "all"`},
		{"no hosts", "name = 'x'\n[scope]\nmode = 'hosts'",
			`scope.hosts and seeds are empty`},
		{"no include", "name = 'x'\n[scope]\nmode = 'regex'", `scope.include is empty`},
		{"idle hosts", "name = 'x'" + scope + "hosts = ['a']",
			`p.toml:4:1: scope.hosts has no effect with mode any`},
		{"host", "name = 'x'\n[scope]\nmode = 'hosts'\nhosts = ['http://a/']",
			`scope.hosts: "http://a/" is not a host name`},
		{"regex", "name = 'x'\n[scope]\nmode = 'regex'\ninclude = ['(']",
			`"(" is not a regular expression`},
		{"seed", "name = 'x'\nseeds = ['a.example']" + scope,
			`p.toml:2:1: seeds: "a.example": must start with http://`},
		{"bootstrap", "name = 'x'\nbootstrap = ['x']" + scope, `bootstrap: "x"`},
		{"admission", "name = 'x'\nadmission = 'ask'" + scope,
			`p.toml:2:1: admission is "ask", want one of open, invite, closed`},
		{"no founder", "name = 'x'\nadmission = 'invite'" + scope, `founders is empty`},
		{"founders of all", "name = 'x'\nfounders = ['" + onePeer[len(onePeer)-52:] + "']" + scope,
			`p.toml:2:1: founders has no effect`},
		{"founder", "name = 'x'\nadmission = 'closed'\nfounders = ['me']" + scope,
			`p.toml:3:1: founders: "me" is not the ID of a peer`},
		{"limits", "name = 'x'" + scope + "[limits]\nmax_url_length = 9999\nmax_body_bytes = 1",
			"p.toml:5:1: limits.max_url_length is 9999, want 16 to 2048\n" +
				"p.toml:6:1: limits.max_body_bytes is 1"},
		{"delay", "name = 'x'" + scope + "[politeness]\nmin_delay = '2h'",
			`politeness.min_delay is 2h0m0s`},
		{"factor", "name = 'x'" + scope + "[politeness]\ndelay_factor = -1",
			`p.toml:5:1: politeness.delay_factor is -1, want 0 to 1000`},
		{"requests a day", "name = 'x'" + scope + "[politeness]\nmax_requests_per_host_day = -1",
			`p.toml:5:1: politeness.max_requests_per_host_day is -1, want 0 to`},
		{"text for a switch", "name = 'x'" + scope + "[urls]\nsort_query = 'yes'",
			`p.toml:5:14: urls.sort_query: got string, want true or false`},
		{"unknown rule", "name = 'x'" + scope + "[links]\nimages = true",
			`p.toml:5:1: unknown key "links.images"`},
		{"heuristic", "name = 'x'" + scope + "[traps]\nheuristics = ['-facet']",
			`p.toml:5:1: traps.heuristics: unknown heuristic "-facet", want all,`},
		{"heuristic with a minus", "name = 'x'" + scope + "[traps]\nheuristics = ['-facet']",
			`with or without a minus`},
		{"limit", "name = 'x'" + scope + "[traps]\nlimits = { pages = 5, yield = 0 }",
			"p.toml:5:1: traps.limits: unknown limit \"pages\", want one of"},
		{"limit of nothing", "name = 'x'" + scope + "[traps.limits]\nyield = 0",
			"p.toml:4:2: traps.limits: limit yield is 0, want at least 1"},
		{"text for a limit", "name = 'x'" + scope + "[traps.limits]\nyield = 'many'",
			"p.toml:5:9: traps.limits.yield: got string, want an integer"},
		{"copies", "name = 'x'" + scope + "[duplicates]\nmax_copies = -1",
			`p.toml:5:1: duplicates.max_copies is -1, want 0 to`},
		{"interval", "name = 'x'" + scope + "[revisit]\nmin_interval = '10ms'",
			`p.toml:5:1: revisit.min_interval is 10ms, want 1s to 8760h0m0s`},
		{"bare interval", "name = 'x'" + scope + "[revisit]\nmin_interval = 3",
			`p.toml:5:1: revisit.min_interval: "3" is not a duration`},
		{"intervals", "name = 'x'" + scope +
			"[revisit]\nmax_interval = '2h'\ninitial_interval = '3h'",
			`p.toml:6:1: revisit.initial_interval is 3h0m0s, want 1h0m0s to 2h0m0s`},
		{"size", "name = 'x'\nseeds = [" + strings.Repeat("'http://a.example/',", 15000) + "]" +
			scope, ` bytes without comments, want at most 262144`},
		{"include", "name = 'x'" + scope + "\nexclude = ['a', '(']",
			`p.toml:5:1: scope.exclude: "(" is not a regular expression`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseProfile("p.toml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) ||
				!errors.Is(err, ErrInvalid) {
				t.Errorf("error = %q, want %q in it", err, tt.want)
			}
		})
	}
}

// The network ID of the default profile must not change by accident: peers of different versions
// would not find each other.
func TestDefaultNetworkIsStable(t *testing.T) {
	p := DefaultProfile()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := p.NetworkID(), "peerd-42639e9d1167da3e"; got != want {
		t.Errorf("NetworkID() = %s, want %s", got, want)
	}
}

// drawProfile draws from small sets, so that equal profiles are frequent.
func drawProfile(t *rapid.T, label string) Profile {
	some := func(name string, of ...string) []string {
		return rapid.SliceOfN(rapid.SampledFrom(of), 0, 3).Draw(t, label+name)
	}
	return Profile{
		Name:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, label+"name"),
		Seeds:     some("seeds", "http://a/", "http://a/x", "http://b/"),
		Bootstrap: some("bootstrap", onePeer),
		Scope: Scope{
			Mode:    rapid.SampledFrom(Modes).Draw(t, label+"mode"),
			Hosts:   some("hosts", "a", "b", "c"),
			Domains: some("domains", "a", "b"),
			Include: some("include", "x", `x" "y`, "y"),
			Exclude: some("exclude", "x", "y"),
		},
		Limits: Limits{MaxDepth: rapid.IntRange(0, 1).Draw(t, label+"depth"),
			MaxURLLength: 2048, MaxBodyBytes: 1024},
		Politeness: Politeness{MinDelay: Duration{time.Duration(rapid.IntRange(0, 1).Draw(t,
			label+"delay"))}},
	}
}

// sameRules defines equality of networks independently of canonical.
func sameRules(p, q Profile) bool {
	sets := func(p Profile) [][]string {
		hosts, seeds := slices.Clone(p.Scope.Hosts), p.seedHosts()
		if p.Scope.Mode == "hosts" {
			hosts = append(hosts, seeds...)
		}
		if p.Scope.Mode != "domains" {
			seeds = nil
		}
		return [][]string{hosts, seeds, p.Scope.Domains, p.Scope.Include, p.Scope.Exclude}
	}
	a, b := sets(p), sets(q)
	for i := range a {
		for _, v := range a[i] {
			if !slices.Contains(b[i], v) {
				return false
			}
		}
		for _, v := range b[i] {
			if !slices.Contains(a[i], v) {
				return false
			}
		}
	}
	return p.Name == q.Name && p.Scope.Mode == q.Scope.Mode && p.Limits == q.Limits &&
		p.Politeness == q.Politeness
}

func TestNetworkIsItsRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawProfile(t, "p."), drawProfile(t, "q.")
		if rapid.Bool().Draw(t, "start equal") { // else most pairs differ in all
			q.Name, q.Scope, q.Limits, q.Politeness = p.Name, p.Scope, p.Limits, p.Politeness
		}
		if got, want := p.NetworkID() == q.NetworkID(), sameRules(p, q); got != want {
			t.Fatalf("same network = %v, want %v\n%s\n%s", got, want, p.canonical(), q.canonical())
		}
	})
}

func TestNetworkIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawProfile(t, "")
		q := p
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "shuffle"), 0))
		for _, list := range []*[]string{&q.Seeds, &q.Scope.Hosts, &q.Scope.Domains,
			&q.Scope.Include, &q.Scope.Exclude} {
			*list = append(slices.Clone(*list), *list...) // twice
			r.Shuffle(len(*list), func(i, j int) {
				(*list)[i], (*list)[j] = (*list)[j], (*list)[i]
			})
		}
		for i, h := range q.Scope.Hosts {
			q.Scope.Hosts[i] = strings.ToUpper(h)
		}
		q.Bootstrap = nil
		before := slices.Clone(p.Scope.Hosts)
		if p.NetworkID() != q.NetworkID() {
			t.Fatalf("different networks:\n%s\n%s", p.canonical(), q.canonical())
		}
		if !slices.Equal(before, p.Scope.Hosts) {
			t.Fatal("NetworkID changed the profile")
		}
	})
}

func FuzzParseProfile(f *testing.F) {
	f.Add([]byte(docs))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProfile("f", text)
		if err != nil {
			checkFault(t, err)
			return
		}
		if a, b := p.NetworkID(), p.NetworkID(); a != b {
			t.Error("NetworkID() is not stable")
		}
	})
}
