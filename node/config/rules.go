package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"peerd/crawl/trap"
)

// URLs is the section [urls] of a profile: what of a URL does not name a page,
// beyond what the URL Standard says.
type URLs struct {
	DropSessionIDs bool `toml:"drop_session_ids"` // jsessionid, PHPSESSID and their like
	DropTracking   bool `toml:"drop_tracking"`    // utm_source, gclid and their like
	SortQuery      bool `toml:"sort_query"`       // a=1&b=2 and b=2&a=1 are one page
}

// Links is the section [links] of a profile: which references are followed
// besides those to pages.
type Links struct {
	Media  bool `toml:"media"`  // images, sound, embedded objects
	Forms  bool `toml:"forms"`  // actions of forms that send GET
	Styles bool `toml:"styles"` // url() and @import of style sheets within pages
	// ObeyNofollow leaves out the links of pages that ask for it, by meta robots
	// or X-Robots-Tag. ObeyRelNofollow does so for single links with
	// rel=nofollow, ugc or sponsored, which speaks of endorsement.
	ObeyNofollow    bool `toml:"obey_nofollow"`
	ObeyRelNofollow bool `toml:"obey_rel_nofollow"`
	// Canonical leaves out the links of pages that name another URL as theirs,
	// which is followed.
	Canonical bool `toml:"obey_canonical"`
	// Sitemaps reads those that robots.txt names.
	Sitemaps bool `toml:"sitemaps"`
}

// Traps is the section [traps] of a profile: which URLs are no pages but traps
// for crawlers. Names and limits are those of crawl/trap.
type Traps struct {
	// Heuristics turns heuristics off, as in ["-calendar"], or only some on, as
	// in ["length", "depth"]. Empty is all.
	Heuristics []string `toml:"heuristics"`
	// Limits changes limits, as in { dates = 1000 }.
	Limits map[string]int `toml:"limits"`
}

// Duplicates is the section [duplicates] of a profile: what is done about
// different URLs with the same content.
type Duplicates struct {
	Exact bool `toml:"exact"` // marks pages whose body a page of the host had before
	Near  bool `toml:"near"`  // and those whose text is nearly the same
	// MaxCopies is the number of pages of one host with one body from which on
	// the links of further copies are not followed; 0: they always are.
	MaxCopies int `toml:"max_copies"`
	// SoftNotFound marks pages that say 200 and mean 404, and does not follow
	// their links.
	SoftNotFound bool `toml:"soft_404"`
	// Mirrors marks hosts whose pages equal those of another host, and does not
	// follow the links of further ones.
	Mirrors bool `toml:"mirrors"`
}

// Revisit is the section [revisit] of a profile: a continuous crawl comes back
// to its pages.
type Revisit struct {
	Enabled bool     `toml:"enabled"`
	Min     Duration `toml:"min_interval"`
	Max     Duration `toml:"max_interval"`
	Initial Duration `toml:"initial_interval"`
	// Price is the time of freshness that one more request has to buy: less is
	// more requests.
	Price Duration `toml:"price"`
}

// Archive is the section [archive] of a peer's configuration.
type Archive struct {
	Enabled bool `toml:"enabled"`
	// MaxFile is the size at which a WARC file is closed and the next begun;
	// Quota bounds all of them, 0 means not at all.
	MaxFile Size `toml:"max_file"`
	Quota   Size `toml:"quota"`
}

func (r Revisit) check(f *faults) {
	f.lasting("revisit.min_interval", r.Min, time.Second, 365*24*time.Hour)
	f.lasting("revisit.max_interval", r.Max, r.Min.Duration, 10*365*24*time.Hour)
	f.lasting("revisit.initial_interval", r.Initial, r.Min.Duration, r.Max.Duration)
	f.lasting("revisit.price", r.Price, time.Millisecond, 365*24*time.Hour)
}

func (a Archive) check(f *faults) {
	between(f, "archive.max_file", int64(a.MaxFile), 1<<20, 1<<50)
	between(f, "archive.quota", int64(a.Quota), 0, 1<<60)
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

// UnmarshalText reads a number and a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or
// TiB; none is bytes.
func (s *Size) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	for _, u := range units {
		number, ok := strings.CutSuffix(t, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if v := n * float64(u.bytes); err == nil && v >= 0 && v < 1<<62 {
			*s = Size(v)
			return nil
		}
		break
	}
	return fmt.Errorf("%q is no size, want one such as \"10GiB\" or \"500MB\"", clip(t))
}

// MarshalText is the inverse of UnmarshalText.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String writes s in the largest binary unit that it is a multiple of.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := units[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Hours are the times of day, in the peer's own time zone, at which it fetches:
// "" is always, "22:00-06:00" a span, which may go over midnight.
type Hours string

// span returns the begin and the end in minutes of the day.
func (h Hours) span() (from, to int, err error) {
	var fh, fm, th, tm int
	n, err := fmt.Sscanf(string(h), "%d:%d-%d:%d", &fh, &fm, &th, &tm)
	from, to = fh*60+fm, th*60+tm
	if err != nil || n != 4 || fm > 59 || tm > 59 || from < 0 || to < 0 || from >= 24*60 || to > 24*60 || from == to {
		return 0, 0, fmt.Errorf("%q is no span of hours, want one such as \"22:00-06:00\"", clip(string(h)))
	}
	return from, to, nil
}

// Wait returns how long it is from now until the next span begins; 0 within
// one. h must be valid.
func (h Hours) Wait(now time.Time) time.Duration {
	if h == "" {
		return 0
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
	c := trap.DefaultConfig()
	said := func(key string, err error) {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			f.addf("%s: %s", key, strings.TrimPrefix(line, "trap: "))
		}
	}
	if _, err := trap.Parse(t.Heuristics); err != nil {
		said("traps.heuristics", err)
	}
	for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
		if err := c.SetLimit(name, t.Limits[name]); err != nil {
			said("traps.limits", err)
		}
	}
	if err := c.Validate(); err != nil {
		said("traps.limits", err)
	}
}

// Config returns what the section says on top of the defaults.
func (t Traps) Config() (trap.Config, error) {
	c := trap.DefaultConfig()
	var err error
	if c.On, err = trap.Parse(t.Heuristics); err != nil {
		return c, err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Limits)) {
		if err := c.SetLimit(name, t.Limits[name]); err != nil {
			return c, err
		}
	}
	return c, c.Validate()
}

func (d Duplicates) check(f *faults) {
	between(f, "duplicates.max_copies", d.MaxCopies, 0, 1<<30)
}

// Length is how long the spans of a day are together. h must be valid.
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
