package hostile

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Judge returns the faults of a crawler in a case, from the log so far. hold limits how
// long the crawler may read one answer, robots.txt or page, of a case that is Slow.
func (w *Web) Judge(name string, hold time.Duration) []string {
	i := slices.IndexFunc(w.cases, func(c Case) bool { return c.Name == name })
	if i < 0 {
		return []string{"case " + name + " is not served"}
	}
	j := &judge{c: &w.cases[i]}
	for _, h := range w.Log() {
		if h.Case == name {
			j.hits = append(j.hits, h)
		}
	}
	j.counts()
	j.paths()
	j.politeness()
	if j.c.Slow {
		j.holds(hold)
	}
	j.addresses(w.Conns())
	j.names(w.Lookups())
	return j.faults
}

// judge collects the faults of one case.
type judge struct {
	c      *Case
	hits   []Hit
	faults []string
}

func (j *judge) fault(format string, args ...any) {
	j.faults = append(j.faults, fmt.Sprintf(format, args...))
}

// counts checks the numbers of requests, bytes and repetitions.
func (j *judge) counts() {
	b := j.c.Bound
	if len(j.hits) > b.Requests {
		j.fault("%d requests, want at most %d", len(j.hits), b.Requests)
	}
	var sent int64
	times := map[string]int{}
	for _, h := range j.hits {
		sent += h.Sent
		times[h.Host+h.Path]++
		if times[h.Host+h.Path] == b.Repeat+1 {
			j.fault("%s%s was requested more than %d times", h.Host, clip(h.Path), b.Repeat)
		}
	}
	if b.Sent > 0 && sent > b.Sent {
		j.fault("%d bytes were taken, want at most %d", sent, b.Sent)
	}
}

// paths checks the requests against Want and Never.
func (j *judge) paths() {
	for _, want := range j.c.Bound.Want {
		if !slices.ContainsFunc(j.hits, func(h Hit) bool { return j.matches(want, h) }) {
			j.fault("%s was not requested", clip(want))
		}
	}
	for _, never := range j.c.Bound.Never {
		if i := slices.IndexFunc(j.hits, func(h Hit) bool { return j.matches(never, h) }); i >= 0 {
			j.fault("%s%s was requested, want none of %s", j.hits[i].Host, clip(j.hits[i].Path),
				clip(never))
		}
	}
}

func (j *judge) matches(pattern string, h Hit) bool {
	if strings.HasPrefix(pattern, "/") {
		pattern = j.c.Hosts[0] + pattern
	}
	return glob(pattern, h.Host+h.Path)
}

// glob reports whether s matches pattern, in which "*" matches any text. It uses the
// first match of each piece, so the time is at most the product of the lengths.
func glob(pattern, s string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, pieces[0])
	if !ok {
		return false
	}
	last := len(pieces) - 1
	for _, p := range pieces[1:last] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, pieces[last])
}

// politeness checks the rules that apply to all cases.
func (j *judge) politeness() {
	until := map[string]time.Time{}
	for _, h := range j.hits {
		for _, name := range []string{"Cookie", "Authorization", "Proxy-Authorization"} {
			if v := h.Header[name]; v != "" {
				j.fault("%s%s: a request with %s: %s", h.Host, clip(h.Path), name, clip(v))
			}
		}
		if h.Header["User-Agent"] == "" {
			j.fault("%s%s: a request without User-Agent", h.Host, clip(h.Path))
		}
		if early := until[h.Host].Sub(h.Start); early > 0 {
			j.fault("%s%s: requested %v too early", h.Host, clip(h.Path), early)
		}
		if (h.Status == 429 || h.Status == 503) && !h.End.IsZero() {
			until[h.Host] = h.End.Add(j.c.Bound.Pause)
		}
	}
}

// holds checks that the client abandoned answers in time.
func (j *judge) holds(limit time.Duration) {
	for _, h := range j.hits {
		switch d := h.End.Sub(h.Start); {
		case h.Ended == EndOpen || h.Ended == EndStopped:
			j.fault("%s%s: the client never gave up", h.Host, clip(h.Path))
		case d > limit:
			j.fault("%s%s: held for %v, want at most %v", h.Host, clip(h.Path), d, limit)
		}
	}
}

// addresses checks for connections to forbidden addresses.
func (j *judge) addresses(conns []Conn) {
	for _, c := range conns {
		if c.Addr == j.c.forbid || slices.Contains(j.c.extra, c.Addr) {
			j.fault("a connection to %v, which must not be dialled", c.Addr)
		}
	}
}

func (j *judge) names(ls []Lookup) {
	if j.c.Bound.Lookups == 0 {
		return
	}
	seen := map[string]bool{}
	for _, l := range ls {
		seen[l.Host] = seen[l.Host] || l.Case == j.c.Name
	}
	n := 0
	for _, ours := range seen {
		if ours {
			n++
		}
	}
	if n > j.c.Bound.Lookups {
		j.fault("%d names were looked up, want at most %d", n, j.c.Bound.Lookups)
	}
}

// clip shortens long text for messages.
func clip(s string) string {
	if len(s) > 120 {
		return s[:120] + "..."
	}
	return s
}

// Forbidden returns the loopback addresses that must not be dialled.
func (w *Web) Forbidden() []netip.Addr {
	var all []netip.Addr
	for _, c := range w.cases {
		all = append(append(all, c.forbid), c.extra...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}
