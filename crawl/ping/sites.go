package ping

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	"peerd/store"
)

const (
	// MaxFile is the maximum size of a key file in bytes.
	MaxFile = 1 << 10
	// MaxPerDay is the number of pages of a host that are believed to have changed per day, in UTC.
	MaxPerDay = 1000
	// proofLifetime is how long a key is believed without being read again.
	proofLifetime = 24 * time.Hour

	// After a file of a site was read, the next is read at the earliest after minRead, which
	// doubles up to maxRead with each that did not have its key.
	minRead, maxRead = time.Minute, time.Hour
	// maxTries is how often a file is requested of a site that does not answer.
	maxTries = 5

	maxSites   = 4096
	maxProofs  = 4      // of a site
	maxClaims  = 8      // of a site
	maxNotices = 10_000 // that wait, of all sites
)

// An Answer says what to do with a notice.
type Answer uint8

// The answers.
const (
	Refused  Answer = iota // nothing, and forget it
	Wait                   // keep it until the file has been read: Sites.Next
	Believed               // visit the page
)

// A Result says what a request for a key file showed.
type Result uint8

// The results.
const (
	Unreached Result = iota // the site did not answer, or with an error of its own; or not sent
	Absent                  // the site has no such file, or with another text
	Present                 // the file has the key
	Moved                   // another peer crawls the site by now
)

// A Claim is a key and the file that is said to have it.
type Claim struct {
	File store.URL
	Key  string
}

// Sites is what is known of the keys of web sites. It is in memory only: after a restart each key
// is read again.
type Sites struct {
	mu      sync.Mutex
	sites   map[string]*site // by host: a server may listen on many ports
	waiting int              // notices of all sites
}

// A key of a site is in one of two states: claimed, as long as its file has not been read, or
// proved. It is forgotten if its file does not have the key.
type site struct {
	proved  map[Claim]time.Time // until when
	claimed map[Claim]*claim

	reading bool      // a file
	next    time.Time // none is read before
	vain    int       // files read in a row that did not have their key

	day   int64 // as of store.DayOf
	pages int   // believed on that day
}

type claim struct {
	notices map[store.URL]bool // by Notice.URL
	tries   int
}

// NewSites returns a Sites that knows nothing.
func NewSites() *Sites { return &Sites{sites: map[string]*site{}} }

// Ask says what to do with a notice, and remembers it if it waits. In its place, notices of another
// claim may be forgotten: so a flood of forged claims does not exclude others for long.
func (s *Sites) Ask(n Notice, now time.Time) (a Answer, forgotten []store.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, c := n.Page.Host(), Claim{n.File, n.Key}
	t := s.sites[host]
	if t == nil {
		if t = s.add(host, now); t == nil {
			return Refused, nil
		}
	}
	if until, ok := t.proved[c]; ok && now.Before(until) {
		return t.believe(now), nil
	}
	delete(t.proved, c)
	w := t.claimed[c]
	if w == nil {
		if len(t.claimed) >= maxClaims {
			for other := range t.claimed { // any one
				forgotten = s.settle(t, other)
				break
			}
		}
		w = &claim{notices: map[store.URL]bool{}}
		t.claimed[c] = w
	}
	u := n.URL()
	switch {
	case w.notices[u]:
	case len(w.notices) >= MaxPerDay || s.waiting >= maxNotices:
		if len(w.notices) == 0 {
			delete(t.claimed, c)
		}
		return Refused, forgotten
	default:
		w.notices[u] = true
		s.waiting++
	}
	return Wait, forgotten
}

// add adds a site, in place of one of which nothing waits; nil if there is none.
func (s *Sites) add(host string, now time.Time) *site {
	if len(s.sites) >= maxSites {
		full := true
		for other, t := range s.sites {
			if len(t.claimed) == 0 && !t.reading && !now.Before(t.next) {
				delete(s.sites, other)
				full = false
				break
			}
		}
		if full {
			return nil
		}
	}
	t := &site{proved: map[Claim]time.Time{}, claimed: map[Claim]*claim{}}
	s.sites[host] = t
	return t
}

// believe counts a page.
func (t *site) believe(now time.Time) Answer {
	if today := store.DayOf(now); t.day != today {
		t.day, t.pages = today, 0
	}
	if t.pages >= MaxPerDay {
		return Refused
	}
	t.pages++
	return Believed
}

// settle removes a claim, and returns its notices.
func (s *Sites) settle(t *site, c Claim) (notices []store.URL) {
	if w := t.claimed[c]; w != nil {
		notices = slices.Sorted(maps.Keys(w.notices))
		s.waiting -= len(notices)
		delete(t.claimed, c)
	}
	return notices
}

// Next returns a claim of which the file must be read now; ok is false if there is none. Call Read
// for it afterwards.
func (s *Sites) Next(now time.Time) (c Claim, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return c, false
	}
	for _, t := range s.sites {
		if t.reading || now.Before(t.next) {
			continue
		}
		for c := range t.claimed { // any one
			t.reading = true
			return c, true
		}
	}
	return c, false
}

// Read notes what the file of a claim has shown. It returns the notices that do not wait any
// longer: Ask answers for them if the file has the key; otherwise they are forgotten, or another
// peer's.
func (s *Sites) Read(c Claim, r Result, now time.Time) (settled []store.URL) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sites[c.File.Host()]
	if t == nil {
		return nil
	}
	t.reading = false
	w, wait := t.claimed[c], minRead
	switch {
	case r == Present:
		t.vain = 0
		if len(t.proved) >= maxProofs {
			for other := range t.proved { // any one: it is read again
				delete(t.proved, other)
				break
			}
		}
		t.proved[c] = now.Add(proofLifetime)
	case r == Absent:
		wait = min(minRead<<min(t.vain, 8), maxRead)
		t.vain++
	case r == Unreached && w != nil && w.tries+1 < maxTries:
		w.tries++
		t.next = now.Add(minRead << w.tries)
		return nil
	}
	t.next = now.Add(wait)
	return s.settle(t, c)
}

// In reports whether the text of a file is the key, with or without white space and a mark of the
// byte order around it.
func (c Claim) In(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return string(bytes.TrimSpace(text)) == c.Key
}
