package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/pelletier/go-toml/v2"

	"peerd/overlay/admission"
)

// Modes are the valid values of scope.mode of a profile.
var Modes = []string{"hosts", "domains", "regex", "any"}

// Profile holds the rules of a network, which all its peers share. Peers with different rules
// are in different networks; see NetworkID.
type Profile struct {
	// Name has 1 to 32 lower-case letters, digits and dashes, and starts with a letter.
	Name string `toml:"name"`
	// Seeds are the URLs that every peer adds to its crawl at the start. In the modes hosts and
	// domains they also extend the scope.
	Seeds []string `toml:"seeds"`
	// Bootstrap holds multiaddrs, ending in /p2p/ID, of peers to join. It is not part of the
	// rules: peers with different bootstrap addresses are in the same network.
	Bootstrap []string `toml:"bootstrap"`
	// Admission says which peers belong to the network: one of admission.Modes. Founders are the
	// peer IDs of those that belong to it without a certificate; not used in an open network.
	Admission string   `toml:"admission"`
	Founders  []string `toml:"founders"`

	Scope      Scope      `toml:"scope"`
	Limits     Limits     `toml:"limits"`
	Politeness Politeness `toml:"politeness"`
	URLs       URLs       `toml:"urls"`
	Links      Links      `toml:"links"`
	Traps      Traps      `toml:"traps"`
	Duplicates Duplicates `toml:"duplicates"`
	Revisit    Revisit    `toml:"revisit"`
}

// Scope selects the URLs that are crawled.
type Scope struct {
	// Mode is one of Modes: hosts selects Hosts and the hosts of the seeds; domains selects
	// Domains and the registrable domains of the seeds, with all hosts below them; regex selects
	// the matches of Include; any selects every URL.
	Mode    string   `toml:"mode"`
	Hosts   []string `toml:"hosts"`
	Domains []string `toml:"domains"`
	// Include and Exclude are regular expressions (RE2) for canonical URLs. If Include is not
	// empty, a URL must match one of them. A URL that matches Exclude is not crawled.
	Include []string `toml:"include"`
	Exclude []string `toml:"exclude"`
}

// Limits bounds what is crawled. 0 means no limit where a field says so.
type Limits struct {
	MaxDepth        int   `toml:"max_depth"`          // links from a seed; 0: no limit
	MaxURLLength    int   `toml:"max_url_length"`     // bytes, at most 2,048
	MaxPagesPerHost int64 `toml:"max_pages_per_host"` // URLs; 0: no limit
	MaxBodyBytes    int64 `toml:"max_body_bytes"`     // longer bodies are truncated
}

// Politeness sets minimum politeness for all peers of the network.
type Politeness struct {
	// MinDelay is the minimum time between two requests to a host or an address. crawl.min_delay
	// of a peer may be longer.
	MinDelay Duration `toml:"min_delay"`
	// DelayFactor is the pause after a download, in multiples of its duration, if that is longer
	// than the minimum delay. The pause is at most ten times the minimum delay. 0: none.
	DelayFactor float64 `toml:"delay_factor"`
	// HostDay bounds the requests to a host in one day (UTC); 0: no limit.
	HostDay int64 `toml:"max_requests_per_host_day"`
}

// DefaultProfile returns the network "peerd", which crawls every page and leaves the minimum
// delay to crawl.min_delay of each peer.
func DefaultProfile() Profile {
	p := NewProfile()
	p.Name, p.Scope.Mode = "peerd", "any"
	return p
}

// NewProfile returns a profile with the default of every rule that has one. It lacks Name and
// Scope.Mode.
func NewProfile() Profile {
	return Profile{
		Admission:  string(admission.Open),
		Limits:     Limits{MaxURLLength: 2048, MaxBodyBytes: 8 << 20},
		Politeness: Politeness{DelayFactor: 10},
		URLs:       URLs{DropSessionIDs: true},
		Links:      Links{ObeyNofollow: true, Sitemaps: true},
		Duplicates: Duplicates{Exact: true, MaxCopies: 1000},
		Revisit: Revisit{
			Min: Duration{time.Hour}, Max: Duration{90 * 24 * time.Hour},
			Initial: Duration{24 * time.Hour},
		},
	}
}

// LoadProfile reads a profile. Name and scope.mode are required, other keys have defaults. Its
// errors name the file and, if possible, the line. Errors about the content match ErrInvalid.
func LoadProfile(file string) (Profile, error) {
	text, err := readFile(file)
	if err != nil {
		return Profile{}, fmt.Errorf("read profile: %w", err)
	}
	return ParseProfile(file, text)
}

// ParseProfile is LoadProfile for a text that did not come from a file, and is called name.
func ParseProfile(name string, text []byte) (Profile, error) {
	p := NewProfile()
	if err := Parse(name, text, &p); err != nil {
		return Profile{}, err
	}
	return p, nil
}

// Validate returns all faults of p, one a line. The error matches ErrInvalid.
func (p Profile) Validate() error {
	var f faults
	if !namePattern.MatchString(p.Name) {
		f.addf("name is %q, want 1 to 32 of a-z, 0-9 and -, starting with a letter", clip(p.Name))
	}
	for _, s := range p.Seeds {
		_, err := webURL(s)
		f.value("seeds", s, err)
	}
	checkPeers(&f, p.Bootstrap)
	p.checkAdmission(&f)
	p.Scope.check(&f, len(p.Seeds) > 0)
	between(&f, "limits.max_depth", p.Limits.MaxDepth, 0, 1_000_000)
	between(&f, "limits.max_url_length", p.Limits.MaxURLLength, 16, 2048)
	between(&f, "limits.max_pages_per_host", p.Limits.MaxPagesPerHost, 0, 1<<40)
	between(&f, "limits.max_body_bytes", p.Limits.MaxBodyBytes, 1024, 256<<20)
	between(&f, "politeness.min_delay", p.Politeness.MinDelay.Duration, 0, time.Hour)
	between(&f, "politeness.delay_factor", p.Politeness.DelayFactor, 0, 1000)
	between(&f, "politeness.max_requests_per_host_day", p.Politeness.HostDay, 0, 1<<40)
	p.Traps.check(&f)
	p.Duplicates.check(&f)
	p.Revisit.check(&f)
	p.checkSize(&f)
	return f.err()
}

// checkSize refuses a profile that peers could not send to others that join.
func (p Profile) checkSize(f *faults) {
	p.Bootstrap = nil // is sent apart
	text, err := p.Text()
	if err != nil {
		f.addf("%w", err)
	}
	if len(text) > admission.MaxProfile {
		f.addf("the rules have %d bytes without comments, want at most %d", len(text),
			admission.MaxProfile)
	}
}

// maxFounders bounds the founders of a network.
const maxFounders = 64

func (p Profile) checkAdmission(f *faults) {
	open := p.AdmissionOpen()
	switch {
	case !open && !slices.Contains(admission.Modes, p.Admission):
		f.addf("admission is %q, want one of %s", clip(p.Admission),
			strings.Join(admission.Modes, ", "))
	case open && len(p.Founders) > 0:
		f.addf("founders has no effect with admission open")
	case !open && len(p.Founders) == 0:
		f.addf("founders is empty, but admission is %s: no peer could join", p.Admission)
	}
	between(f, "number of founders", len(p.Founders), 0, maxFounders)
	for _, text := range p.Founders {
		id, err := peer.Decode(text)
		if err == nil {
			_, err = id.ExtractPublicKey()
		}
		if err != nil {
			f.addf("founders: %q is not the ID of a peer, want one such as 12D3Koo...", clip(text))
		}
	}
}

// AdmissionRules returns which peers belong to the network. p must be valid.
func (p Profile) AdmissionRules() admission.Rules {
	r := admission.Rules{Network: p.NetworkID(), Mode: admission.Mode(p.Admission)}
	for _, text := range p.Founders {
		if id, err := peer.Decode(text); err == nil {
			r.Founders = append(r.Founders, id)
		}
	}
	return r
}

// Text returns p as TOML. ParseProfile returns an equal profile.
func (p Profile) Text() ([]byte, error) { return toml.Marshal(p) }

var namePattern = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// check also refuses settings that have no effect in the mode, because they are probably
// mistakes.
func (s Scope) check(f *faults, seeds bool) {
	switch {
	case s.Mode == "":
		f.addf("scope.mode is missing, want one of %s", strings.Join(Modes, ", "))
		return
	case !slices.Contains(Modes, s.Mode):
		f.addf("scope.mode is %q, want one of %s", clip(s.Mode), strings.Join(Modes, ", "))
		return
	case s.Mode == "hosts" && len(s.Hosts) == 0 && !seeds, s.Mode == "domains" &&
		len(s.Domains) == 0 && !seeds:
		f.addf("scope.mode is %s, but scope.%s and seeds are empty", s.Mode, s.Mode)
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
		f.addf("scope.%s has no effect with mode %s", mode, s.Mode)
	}
	for _, n := range names {
		if !isHost(strings.ToLower(n)) {
			f.addf("scope.%s: %q is not a host name", mode, clip(n))
		}
	}
}

func checkExpressions(f *faults, key string, list []string) {
	for _, expr := range list {
		if _, err := regexp.Compile(expr); err != nil {
			f.addf("scope.%s: %q is not a regular expression: %w", key, clip(expr), err)
		}
	}
}
