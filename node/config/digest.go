package config

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"peerd/overlay/admission"
)

// NetworkID returns the name of the network: the name of the profile, a dash, and the first 16
// hex digits of the digest of its rules. It is part of every protocol ID, topic and DHT prefix,
// so that peers with different rules do not communicate. p must be valid.
func (p Profile) NetworkID() string {
	sum := p.Digest()
	return fmt.Sprintf("%s-%x", p.Name, sum[:8])
}

// Digest returns the SHA-256 of the rules. p must be valid.
func (p Profile) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(p.canonical())) }

// canonical returns the rules as text, which is the same for equal rules in any order, and
// different for different rules: one line for each rule with key, "=" and value; strings are
// quoted, and lists are sorted sets. Bootstrap peers are not part of the rules. Seeds are part
// of them only by their hosts, where these extend the scope.
//
//	peerd profile 1
//	scope.mode="hosts"
//	scope.hosts="a.example" "b.example"
//	…
func (p Profile) canonical() string {
	var b strings.Builder
	b.WriteString("peerd profile 1\n")
	list := func(key string, values []string) {
		b.WriteString(key + "=")
		values = slices.Compact(slices.Sorted(slices.Values(values)))
		for i, v := range values {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(strconv.Quote(v))
		}
		b.WriteByte('\n')
	}
	number := func(key string, v int64) { fmt.Fprintf(&b, "%s=%d\n", key, v) }

	list("scope.mode", []string{p.Scope.Mode})
	hosts, seedHosts := lowercase(p.Scope.Hosts), p.seedHosts()
	switch p.Scope.Mode {
	case "hosts":
		hosts = append(hosts, seedHosts...)
		seedHosts = nil
	case "domains":
	default:
		seedHosts = nil
	}
	list("scope.hosts", hosts)
	list("scope.domains", lowercase(p.Scope.Domains))
	list("scope.seed_hosts", seedHosts)
	list("scope.include", p.Scope.Include)
	list("scope.exclude", p.Scope.Exclude)
	number("limits.max_depth", int64(p.Limits.MaxDepth))
	number("limits.max_url_length", int64(p.Limits.MaxURLLength))
	number("limits.max_pages_per_host", p.Limits.MaxPagesPerHost)
	number("limits.max_body_bytes", p.Limits.MaxBodyBytes)
	number("politeness.min_delay_ns", int64(p.Politeness.MinDelay.Duration))
	number("politeness.delay_factor_thousandths", int64(p.Politeness.DelayFactor*1000))
	number("politeness.max_requests_per_host_day", p.Politeness.HostDay)
	flag := func(key string, v bool) { fmt.Fprintf(&b, "%s=%t\n", key, v) }
	flag("urls.drop_session_ids", p.URLs.DropSessionIDs)
	flag("urls.drop_tracking", p.URLs.DropTracking)
	flag("urls.sort_query", p.URLs.SortQuery)
	flag("links.media", p.Links.Media)
	flag("links.forms", p.Links.Forms)
	flag("links.styles", p.Links.Styles)
	flag("links.obey_nofollow", p.Links.ObeyNofollow)
	flag("links.obey_rel_nofollow", p.Links.ObeyRelNofollow)
	flag("links.obey_canonical", p.Links.Canonical)
	flag("links.sitemaps", p.Links.Sitemaps)
	traps, _ := p.Traps.Config() // valid
	list("traps.on", traps.On.Names())
	for _, name := range slices.Sorted(maps.Keys(p.Traps.Limits)) {
		number("traps.limits."+name, int64(p.Traps.Limits[name]))
	}
	flag("duplicates.exact", p.Duplicates.Exact)
	number("duplicates.max_copies", int64(p.Duplicates.MaxCopies))
	flag("revisit.enabled", p.Revisit.Enabled)
	if p.Revisit.Enabled {
		number("revisit.min_ns", int64(p.Revisit.Min.Duration))
		number("revisit.max_ns", int64(p.Revisit.Max.Duration))
		number("revisit.initial_ns", int64(p.Revisit.Initial.Duration))
	}
	if !p.AdmissionOpen() { // open networks keep the digest that they had before there were others
		list("admission", []string{p.Admission})
		list("founders", p.Founders)
	}
	return b.String()
}

// AdmissionOpen reports whether every peer belongs to the network.
func (p Profile) AdmissionOpen() bool {
	return p.Admission == "" || p.Admission == string(admission.Open)
}

// seedHosts returns the host names of the seeds, in lower case.
func (p Profile) seedHosts() []string {
	var hosts []string
	for _, s := range p.Seeds {
		if u, err := webURL(s); err == nil {
			hosts = append(hosts, strings.ToLower(u.Hostname()))
		}
	}
	return hosts
}

func lowercase(names []string) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, strings.ToLower(n))
	}
	return out
}
