package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl/trap"
	"peerd/node/replay"
	"peerd/node/traffic"
	"peerd/overlay/plugin"
	"peerd/store/index"
)

// URLs is the section [urls] of a profile: parts of URLs that do not identify a page, in
// addition to those of the URL Standard.
type URLs struct {
	DropSessionIDs bool `toml:"drop_session_ids"` // jsessionid, PHPSESSID and the like
	DropTracking   bool `toml:"drop_tracking"`    // utm_source, gclid and the like
	SortQuery      bool `toml:"sort_query"`       // a=1&b=2 and b=2&a=1 are the same page
}

// Links is the section [links] of a profile: the references that are followed in addition to
// links to pages.
type Links struct {
	Media  bool `toml:"media"`  // images, sound and embedded objects
	Forms  bool `toml:"forms"`  // actions of forms that send GET
	Styles bool `toml:"styles"` // url() and @import of style sheets within pages
	// ObeyNofollow ignores the links of pages that ask for it by meta robots or X-Robots-Tag.
	// ObeyRelNofollow ignores single links with rel=nofollow, ugc or sponsored, which are about
	// endorsement.
	ObeyNofollow    bool `toml:"obey_nofollow"`
	ObeyRelNofollow bool `toml:"obey_rel_nofollow"`
	// Canonical follows only the canonical URL of a page if that is another URL.
	Canonical bool `toml:"obey_canonical"`
	// Sitemaps reads the sitemaps that robots.txt names.
	Sitemaps bool `toml:"sitemaps"`
}

// Traps is the section [traps] of a profile: which URLs are crawler traps. Names and limits are
// those of crawl/trap.
type Traps struct {
	// Heuristics disables heuristics, as in ["-facets"], or enables only some, as in
	// ["length", "depth"]. Empty: all are enabled.
	Heuristics []string `toml:"heuristics"`
	// Limits changes limits, as in { yield = 100 }.
	Limits map[string]int `toml:"limits"`
}

// Duplicates is the section [duplicates] of a profile: how pages with the same content are
// treated.
type Duplicates struct {
	Exact bool `toml:"exact"` // marks pages with the same body as another page of the host
	// MaxCopies is the number of pages of a host with the same body up to which links are
	// followed; 0: no limit.
	MaxCopies int `toml:"max_copies"`
}

// Revisit is the section [revisit] of a profile: a continuous crawl fetches pages again.
type Revisit struct {
	Enabled bool     `toml:"enabled"`
	Min     Duration `toml:"min_interval"`
	Max     Duration `toml:"max_interval"`
	Initial Duration `toml:"initial_interval"`
}

// Archive is the section [archive] of config.toml.
type Archive struct {
	Enabled bool `toml:"enabled"`
	// MaxFile is the size at which a WARC file is closed. Quota bounds the size of all files; 0:
	// no limit.
	MaxFile Size `toml:"max_file"`
	Quota   Size `toml:"quota"`
	// MaxBody is how much is kept of bodies that are not pages, by media type: "image/png",
	// "image/*" or "*/*"; without the latter, DefaultArchiveBody of others. Pages are kept up to
	// the profile's limit on bodies.
	MaxBody map[string]Size `toml:"max_body"`
}

// Events is the section [events] of config.toml.
type Events struct {
	// Enabled writes the event log.
	Enabled bool `toml:"enabled"`
	// MaxSize is the size at which it ends; 0: no limit.
	MaxSize Size `toml:"max_size"`
}

// Search is the section [search] of config.toml.
type Search struct {
	// Enabled indexes the archived pages.
	Enabled bool `toml:"enabled"`
	// Mirrors is how many other peers keep a copy of the archive. MirrorUpload bounds the bytes
	// per second that are sent to them; 0: none are.
	Mirrors      int  `toml:"mirrors"`
	MirrorUpload Size `toml:"mirror_upload"`
	// MirrorSpace bounds the bytes of copies of the archives of other peers; 0: none are kept.
	MirrorSpace Size `toml:"mirror_space"`
	// Ranks has the ranks of the hosts that link influence the order of hits.
	Ranks bool `toml:"ranks"`
}

// maxMirrors bounds the number of copies of an archive.
const maxMirrors = 8

func (s Search) check(f *faults, archive bool) {
	if s.Enabled && !archive {
		f.addf("search.enabled needs archive.enabled: pages are indexed from the archive")
	}
	between(f, "search.mirrors", s.Mirrors, 0, maxMirrors)
	between(f, "search.mirror_upload", int64(s.MirrorUpload), 0, 1e12)
	between(f, "search.mirror_space", int64(s.MirrorSpace), 0, 1<<50)
}

// Replay is the section [replay] of config.toml.
type Replay struct {
	// Listen is a loopback address and port where browsers of this machine see the archived
	// pages; "": none.
	Listen string `toml:"listen"`
}

func (r Replay) check(f *faults, archive bool) {
	if r.Listen == "" {
		return
	}
	if err := replay.CheckAddr(r.Listen); err != nil {
		f.addf("replay.listen: %w", err)
	}
	if !archive {
		f.addf("replay.listen needs archive.enabled: the pages shown are those of the archive")
	}
}

// Page is the section [page] of config.toml.
type Page struct {
	// Listen is HOST:PORT of the page for the owners of web sites; "": none.
	Listen string `toml:"listen"`
}

func (p Page) check(f *faults) {
	if p.Listen != "" {
		f.value("page.listen", p.Listen, checkHostPort(p.Listen))
	}
}

// Collect is the section [collect] of config.toml.
type Collect struct {
	// Enabled archives what the other peers archive, of Hosts or, if it is empty, of all hosts.
	Enabled bool     `toml:"enabled"`
	Hosts   []string `toml:"hosts"`
	// Topics are queries (package index). Pages that match one are collected, too; with Topics and
	// no Hosts, only those.
	Topics []string `toml:"topics"`
	// Upload bounds the bytes per second that this peer sends to collectors; 0: it sends nothing.
	Upload Size `toml:"upload"`
}

// Plugins is the section [plugins] of config.toml.
type Plugins struct {
	// Publishers are the peer IDs of the publishers of the plug-ins that this peer runs and passes
	// on.
	Publishers []string `toml:"publishers"`
}

func (p Plugins) check(f *faults) {
	between(f, "number of plugins.publishers", len(p.Publishers), 0, plugin.MaxPublishers)
	for _, id := range p.Publishers {
		_, err := peer.Decode(id)
		f.value("plugins.publishers", id, err)
	}
}

// Traces is the section [traces] of config.toml.
type Traces struct {
	// Endpoint is the URL of a collector of OpenTelemetry; "": none.
	Endpoint string `toml:"endpoint"`
}

func (t Traces) check(f *faults) {
	if t.Endpoint != "" {
		_, err := webURL(t.Endpoint)
		f.value("traces.endpoint", t.Endpoint, err)
	}
}

// Traffic is the section [traffic] of config.toml: limits on all bytes sent and received, to and
// from web servers, name servers and other peers. 0: no limit.
type Traffic struct {
	Bandwidth     Size `toml:"bandwidth"`      // bytes per second
	MonthlyVolume Size `toml:"monthly_volume"` // bytes per calendar month (UTC)
}

// Limits returns the limits for package traffic.
func (t Traffic) Limits() traffic.Limits {
	return traffic.Limits{Bandwidth: int64(t.Bandwidth), MonthlyVolume: int64(t.MonthlyVolume)}
}

func (t Traffic) check(f *faults, listen []string) {
	if t.Bandwidth != 0 {
		between(f, "traffic.bandwidth", int64(t.Bandwidth), traffic.MinBandwidth, 1e12)
	}
	if t.MonthlyVolume != 0 {
		between(f, "traffic.monthly_volume", int64(t.MonthlyVolume), traffic.MinVolume, 1e18)
	}
	if t.Limits().Limited() && !slices.ContainsFunc(listen, func(addr string) bool {
		return strings.Contains(addr, "/tcp/")
	}) {
		f.addf("traffic: limits need an address with /tcp/ in listen: QUIC is not used with them")
	}
}

// maxCollectHosts bounds the number of hosts that a peer collects.
const maxCollectHosts = 1000

// maxCollectTopics bounds the number of topics.
const maxCollectTopics = 64

func (c Collect) check(f *faults, archive bool) {
	if c.Enabled && !archive {
		f.addf("collect.enabled needs archive.enabled: collected pages are archived")
	}
	between(f, "number of hosts in collect.hosts", len(c.Hosts), 0, maxCollectHosts)
	for _, h := range c.Hosts {
		if !isHost(h) {
			f.addf("collect.hosts: %q is not a host in lower case, such as www.example.org",
				clip(h))
		}
	}
	between(f, "number of topics in collect.topics", len(c.Topics), 0, maxCollectTopics)
	for _, t := range c.Topics {
		_, err := index.Parse(t)
		f.value("collect.topics", t, err)
	}
	between(f, "collect.upload", int64(c.Upload), 0, 1e12)
}

// DefaultArchiveBody is how many bytes the archive keeps of a body that is not a page and for which
// Archive.MaxBody has no limit.
const DefaultArchiveBody = 8 << 20

func (r Revisit) check(f *faults) {
	between(f, "revisit.min_interval", r.Min.Duration, time.Second, 365*24*time.Hour)
	between(f, "revisit.max_interval", r.Max.Duration, r.Min.Duration, 10*365*24*time.Hour)
	between(f, "revisit.initial_interval", r.Initial.Duration, r.Min.Duration, r.Max.Duration)
}

// mediaType matches a media type (RFC 9110, section 8.3.1), or a range of them.
var mediaType = regexp.MustCompile(`^(\*/\*|[a-z0-9!#$&^_.+-]+/(\*|[a-z0-9!#$&^_.+-]+))$`)

func (a Archive) check(f *faults) {
	between(f, "archive.max_file", int64(a.MaxFile), 1<<20, 1<<50)
	between(f, "archive.quota", int64(a.Quota), 0, 1<<60)
	for kind, limit := range a.MaxBody {
		if !mediaType.MatchString(kind) {
			f.addf("archive.max_body: %q is not a media type in lower case", clip(kind))
		}
		between(f, "archive.max_body", int64(limit), 0, 1<<40)
	}
}

// Size is a number of bytes that is written as text, such as "10GiB".
type Size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// UnmarshalText parses a number and a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or TiB; without a
// unit the number is in bytes.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(t, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		// A part of a byte would become 0, which is no limit.
		if v := n * float64(u.bytes); err == nil && (v == 0 || v >= 1) && v < 1<<62 {
			*s = Size(v)
			return nil
		}
		break
	}
	return fmt.Errorf("%q is not a size, want one such as \"10GiB\" or \"500MB\"", clip(t))
}

// MarshalText is the inverse of UnmarshalText.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String formats s in the largest binary unit of which it is a multiple.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Hours is a time of day in the time zone of the peer, such as "22:00-06:00", which may include
// midnight; "" is always, and Never never.
type Hours string

// Never is the Hours of a peer that fetches nothing.
const Never Hours = "never"

// hoursForm matches a span of hours.
var hoursForm = regexp.MustCompile(`^(\d{1,2}):(\d{1,2})-(\d{1,2}):(\d{1,2})$`)

// span returns the start and the end in minutes of the day.
func (h Hours) span() (from, to int, err error) {
	var n [4]int
	m := hoursForm.FindStringSubmatch(string(h))
	for i := range m[min(1, len(m)):] {
		n[i], _ = strconv.Atoi(m[i+1]) // two digits
	}
	from, to = n[0]*60+n[1], n[2]*60+n[3]
	if m == nil || n[1] > 59 || n[3] > 59 || from >= 24*60 || to > 24*60 || from == to {
		return 0, 0, fmt.Errorf(
			"%q is not a span of hours, want one such as \"22:00-06:00\", or never",
			clip(string(h)))
	}
	return from, to, nil
}

// neverWait is the time for which Never says to wait.
const neverWait = 365 * 24 * time.Hour

// Wait returns the time from now until the next span starts; 0 within a span, and a year if there
// is none. h must be valid.
func (h Hours) Wait(now time.Time) time.Duration {
	switch h {
	case "":
		return 0
	case Never:
		return neverWait
	}
	from, to, err := h.span()
	if err != nil {
		return 0
	}
	at := now.Hour()*60 + now.Minute()
	if from < to && from <= at && at < to || from > to && (at >= from || at < to) {
		return 0
	}
	begin := time.Date(now.Year(), now.Month(), now.Day(), from/60, from%60, 0, 0, now.Location())
	if !begin.After(now) {
		begin = begin.AddDate(0, 0, 1)
	}
	return begin.Sub(now)
}

func (t Traps) check(f *faults) {
	if _, err := t.Config(); err != nil {
		f.addf("%w", err)
	}
}

// Config returns the default configuration with the changes of the section. Its error has one line
// for each fault.
func (t Traps) Config() (trap.Config, error) {
	var f faults
	report := func(key string, err error) {
		if err == nil {
			return
		}
		for line := range strings.SplitSeq(err.Error(), "\n") {
			f.addf("%s: %s", key, strings.TrimPrefix(line, "trap: "))
		}
	}
	c := trap.DefaultConfig()
	on, err := trap.Parse(t.Heuristics)
	report("traps.heuristics", err)
	for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
		report("traps.limits", c.SetLimit(name, t.Limits[name]))
	}
	report("traps.limits", c.Validate())
	c.On = on
	return c, f.err()
}

func (d Duplicates) check(f *faults) {
	between(f, "duplicates.max_copies", d.MaxCopies, 0, 1<<30)
}

// Length returns the total length of the spans of a day, of Never that of the day: limits that
// are never reached. h must be valid.
func (h Hours) Length() time.Duration {
	from, to, err := h.span()
	if h == "" || err != nil {
		return 24 * time.Hour
	}
	if to <= from {
		to += 24 * 60
	}
	return time.Duration(to-from) * time.Minute
}
