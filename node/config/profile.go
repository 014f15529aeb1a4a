package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Modes are the names that scope.mode of a profile may have.
var Modes = []string{"hosts", "domains", "regex", "any"}

// Profile is a network: the rules that all its peers share. Peers with other
// rules are in another network, see NetworkID.
type Profile struct {
	// Name is 1 to 32 lower-case letters, digits and dashes.
	Name string `toml:"name"`
	// Seeds are the URLs that every peer puts into its crawl at start. In the
	// modes hosts and domains they also widen the scope.
	Seeds []string `toml:"seeds"`
	// Bootstrap holds multiaddrs, with /p2p/ID at their end, of peers to join.
	// It is no rule: peers that know other ways in are in the same network.
	Bootstrap []string `toml:"bootstrap"`

	Scope      Scope      `toml:"scope"`
	Limits     Limits     `toml:"limits"`
	Politeness Politeness `toml:"politeness"`
	URLs       URLs       `toml:"urls"`
	Links      Links      `toml:"links"`
	Traps      Traps      `toml:"traps"`
	Duplicates Duplicates `toml:"duplicates"`
	Revisit    Revisit    `toml:"revisit"`
}

// Scope says which URLs are taken.
type Scope struct {
	// Mode is one of Modes: hosts takes Hosts and those of the seeds, domains
	// takes Domains and the registrable domains of the seeds with all below
	// them, regex takes what Include matches, any takes every URL.
	Mode    string   `toml:"mode"`
	Hosts   []string `toml:"hosts"`
	Domains []string `toml:"domains"`
	// Include and Exclude are regular expressions (RE2) over canonical URLs.
	// With Include, only URLs that match one are taken; Exclude goes first.
	Include []string `toml:"include"`
	Exclude []string `toml:"exclude"`
}

// Limits bound what is taken. 0 means no limit where a field says so.
type Limits struct {
	MaxDepth        int   `toml:"max_depth"`          // links from a seed; 0: no limit
	MaxURLLength    int   `toml:"max_url_length"`     // bytes, at most 2,048
	MaxPagesPerHost int64 `toml:"max_pages_per_host"` // URLs; 0: no limit
	MaxBodyBytes    int64 `toml:"max_body_bytes"`     // a longer body is cut
}

// Politeness is the floor below which no peer of the network may go.
type Politeness struct {
	// MinDelay is the least time between two requests to a host or an address.
	// Each peer's own crawl.min_delay may be longer.
	MinDelay Duration `toml:"min_delay"`
	// DelayFactor times the last download time is the pause after it, if that
	// is longer than the least delay; it is at most ten times as long. 0: none.
	DelayFactor float64 `toml:"delay_factor"`
	// HostDay bounds the requests to a host on one day (UTC); 0: no limit.
	HostDay int64 `toml:"max_requests_per_host_day"`
}

// DefaultProfile returns the network "peerd", which takes every page and
// leaves the least delay to crawl.min_delay of each peer.
func DefaultProfile() Profile {
	p := defaultRules()
	p.Name, p.Scope.Mode = "peerd", "any"
	return p
}

// defaultRules are those of a profile that says nothing about them.
func defaultRules() Profile {
	return Profile{
		Limits:     Limits{MaxURLLength: 2048, MaxBodyBytes: 8 << 20},
		Politeness: Politeness{DelayFactor: 10},
		URLs:       URLs{DropSessionIDs: true},
		Links:      Links{ObeyNofollow: true, Sitemaps: true},
		Duplicates: Duplicates{Exact: true, MaxCopies: 1000},
		Revisit: Revisit{
			Min: Duration{time.Hour}, Max: Duration{90 * 24 * time.Hour},
			Initial: Duration{24 * time.Hour}, Price: Duration{time.Hour},
		},
	}
}

// LoadProfile reads a profile. Name and scope.mode must be in it, limits have
// defaults. Its errors name the file, and the line where they can; those about
// the content match ErrInvalid.
func LoadProfile(file string) (Profile, error) {
	text, err := readFile(file)
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	return parseProfile(file, text)
}

func parseProfile(name string, text []byte) (Profile, error) {
	p := defaultRules()
	if err := decode(name, text, &p); err != nil {
		return Profile{}, err
	}
	if err := p.Validate(); err != nil {
		return Profile{}, inFile(name, text, err)
	}
	return p, nil
}

// Validate returns all that is wrong with p, one line a fault; the error
// matches ErrInvalid.
func (p Profile) Validate() error {
	var f faults
	if !nameForm.MatchString(p.Name) {
		f.addf("name is %q, want 1 to 32 of a-z, 0-9 and -, starting with a letter", clip(p.Name))
	}
	for _, s := range p.Seeds {
		if _, err := webURL(s); err != nil {
			f.addf("seeds: %q: %w", clip(s), err)
		}
	}
	checkPeers(&f, p.Bootstrap)
	p.Scope.check(&f, len(p.Seeds) > 0)
	between(&f, "limits.max_depth", p.Limits.MaxDepth, 0, 1_000_000)
	between(&f, "limits.max_url_length", p.Limits.MaxURLLength, 16, 2048)
	between(&f, "limits.max_pages_per_host", p.Limits.MaxPagesPerHost, 0, 1<<40)
	between(&f, "limits.max_body_bytes", p.Limits.MaxBodyBytes, 1024, 256<<20)
	f.lasting("politeness.min_delay", p.Politeness.MinDelay, 0, time.Hour)
	if d := p.Politeness.DelayFactor; !(d >= 0 && d <= 1000) {
		f.addf("politeness.delay_factor is %v, want 0 to 1000", d)
	}
	between(&f, "politeness.max_requests_per_host_day", p.Politeness.HostDay, 0, 1<<40)
	p.Traps.check(&f)
	p.Duplicates.check(&f)
	p.Revisit.check(&f)
	return f.err()
}

var nameForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// check also refuses settings that the mode would ignore, because somebody
// meant something by them.
func (s Scope) check(f *faults, seeds bool) {
	switch {
	case s.Mode == "":
		f.addf("scope.mode is missing, want one of %s", strings.Join(Modes, ", "))
		return
	case !slices.Contains(Modes, s.Mode):
		f.addf("scope.mode is %q, want one of %s", clip(s.Mode), strings.Join(Modes, ", "))
		return
	case s.Mode == "hosts" && len(s.Hosts) == 0 && !seeds, s.Mode == "domains" && len(s.Domains) == 0 && !seeds:
		f.addf("scope.mode is %s, but neither scope.%s nor seeds names one", s.Mode, s.Mode)
	case s.Mode == "regex" && len(s.Include) == 0:
		f.addf("scope.mode is regex, but scope.include is empty")
	}
	s.checkNames(f, "hosts", s.Hosts)
	s.checkNames(f, "domains", s.Domains)
	checkExpressions(f, "include", s.Include)
	checkExpressions(f, "exclude", s.Exclude)
}

func (s Scope) checkNames(f *faults, mode string, names []string) {
	if len(names) > 0 && s.Mode != mode {
		f.addf("scope.%s has no meaning with mode %s", mode, s.Mode)
	}
	for _, n := range names {
		if !isHost(strings.ToLower(n)) {
			f.addf("scope.%s: %q is no host name", mode, clip(n))
		}
	}
}

func checkExpressions(f *faults, key string, list []string) {
	for _, expr := range list {
		if _, err := regexp.Compile(expr); err != nil {
			f.addf("scope.%s: %q is no regular expression: %w", key, clip(expr), err)
		}
	}
}
