package deny

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"peerd/crawl/canon"
	"peerd/internal/clock"
	"peerd/store"
)

var (
	// ErrOptedOut means that a web site has opted out. It matches ErrDenied, too.
	ErrOptedOut = fmt.Errorf("%w has a site that opted out", ErrDenied)
	// ErrStopped means that requests to an address were stopped from there. It matches ErrDenied.
	ErrStopped = fmt.Errorf("%w has an address that asked to be left alone", ErrDenied)
	// ErrOrigin means that a text does not name a web site.
	ErrOrigin = errors.New("not the URL of a web site, such as https://www.example.org/")
)

const (
	// OptOutPath is where a site says that it opts out; MaxOptOut is the maximum size of the file
	// in bytes.
	OptOutPath = "/.well-known/peerd-optout"
	MaxOptOut  = 4 << 10
	// OptOutLifetime is how long a file is obeyed without being read again.
	OptOutLifetime = 30 * 24 * time.Hour
	// MaxStop is how long a stop lasts.
	MaxStop = time.Hour

	// A file is read again at the earliest after minRead, which doubles up to maxRead with each
	// time that nothing has changed. A file that cannot be read is obeyed for unreachableFor more.
	minRead, maxRead = time.Minute, 8 * time.Minute
	unreachableFor   = time.Hour

	maxObeyed = 100_000 // origins
	maxOfHost = 16      // of them
	maxClaims = 8192
	maxStops  = 1024
)

// OptOuts knows which web sites have opted out, and which are said to have. What others say has
// one effect: before the next request to the site, its file is read. It is safe for concurrent use.
type OptOuts struct {
	save func(OptOut) error

	mu     sync.Mutex
	obeyed map[string]*origin
	hosts  map[string][]string      // the obeyed origins of each
	claims map[string]*origin       // origins that are not obeyed
	stops  map[netip.Addr]time.Time // until when
}

// OptOut is the opt-out of an origin, scheme://host or scheme://host:port.
type OptOut struct {
	Origin string
	Until  time.Time // zero: it is not obeyed any more
}

// origin is what is known of a site that is said to have opted out.
type origin struct {
	until   time.Time // obeyed until then; zero: not obeyed
	claimed bool      // a peer says that the file has changed
	next    time.Time // the file is not read before
	vain    int       // how often it was read in a row without a change
}

// NewOptOuts returns the opt-outs that were saved. save is called with each change, and not while a
// lock is held; it may be nil.
func NewOptOuts(saved []OptOut, save func(OptOut) error) *OptOuts {
	o := &OptOuts{save: save, obeyed: map[string]*origin{}, hosts: map[string][]string{},
		claims: map[string]*origin{}, stops: map[netip.Addr]time.Time{}}
	for _, s := range saved {
		o.obey(s.Origin, &origin{until: s.Until})
	}
	return o
}

// ParseOrigin returns the origin of a URL that a visitor has entered or a peer sent.
func ParseOrigin(text string) (string, error) {
	if u, err := canon.Parse(text); err == nil && u.Host() != "" && len(u.Origin()) <= 300 {
		return u.Origin(), nil
	}
	return "", fmt.Errorf("%.60q: %w", text, ErrOrigin)
}

// ParseOptOut reports whether the file of a site says that it opts out, and until when; zero: it
// does not say. A line "crawler: peerd" or "crawler: *" opts out, "until: 2030-12-31" ends that.
func ParseOptOut(text []byte) (out bool, until time.Time) {
	text = bytes.TrimPrefix(text[:min(len(text), MaxOptOut)], []byte("\ufeff"))
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		key, value, _ := strings.Cut(line, ":")
		value = strings.ToLower(strings.TrimSpace(value))
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "crawler":
			out = out || value == "peerd" || value == "*"
		case "until":
			if day, err := time.Parse(time.DateOnly, value); err == nil {
				until = day.AddDate(0, 0, 1) // the day included
			}
		}
	}
	return out, until
}

// Claim notes that a peer says that the file of an origin has changed. It will be Due.
func (o *OptOuts) Claim(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := cmp.Or(o.obeyed[name], o.claims[name])
	if s == nil {
		s = new(origin)
		o.addClaim(name, s)
	}
	s.claimed = true
}

// addClaim adds an origin to the claims. o.mu is held.
func (o *OptOuts) addClaim(name string, s *origin) {
	for other := range o.claims { // any one, so that a flood does not evict all others
		if len(o.claims) < maxClaims {
			break
		}
		delete(o.claims, other)
	}
	o.claims[name] = s
}

// obey adds an origin to those that are obeyed. o.mu is held.
func (o *OptOuts) obey(name string, s *origin) {
	o.obeyed[name] = s
	host := store.URL(name).Host()
	o.hosts[host] = append(o.hosts[host], name)
}

// forget removes an origin from those that are obeyed. o.mu is held.
func (o *OptOuts) forget(name string) {
	if o.obeyed[name] == nil {
		return
	}
	delete(o.obeyed, name)
	host := store.URL(name).Host()
	left := slices.DeleteFunc(o.hosts[host], func(s string) bool { return s == name })
	if o.hosts[host] = left; len(left) == 0 {
		delete(o.hosts, host)
	}
}

// makeRoom makes room for an origin among those that are obeyed. It returns the one that it has
// forgotten: any one, or one of the same host if that has too many; "": none. The file of that is
// read before the next request to it. o.mu is held.
func (o *OptOuts) makeRoom(name string) (forgotten string) {
	if all := o.hosts[store.URL(name).Host()]; len(all) >= maxOfHost {
		forgotten = all[0]
	} else if len(o.obeyed) < maxObeyed {
		return ""
	} else {
		for forgotten = range o.obeyed {
			break
		}
	}
	o.forget(forgotten)
	o.addClaim(forgotten, &origin{claimed: true})
	return forgotten
}

// origins returns the origins with a file that speaks for a URL: HTTP and HTTPS have their usual
// ports together, and any other port is a site of its own.
func origins(u store.URL) [2]string {
	_, site, _ := strings.Cut(u.Origin(), "://")
	return [2]string{"https://" + site, "http://" + site}
}

// Due returns the URL of a file that must be read before u may be requested; "": none.
func (o *OptOuts) Due(u store.URL, now time.Time) store.URL {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.obeyed)+len(o.claims) == 0 {
		return ""
	}
	for _, name := range origins(u) {
		s := cmp.Or(o.obeyed[name], o.claims[name])
		if s != nil && !now.Before(s.next) &&
			(s.claimed || !s.until.IsZero() && !now.Before(s.until)) {
			return store.URL(name + OptOutPath)
		}
	}
	return ""
}

// Read notes the file of an origin, as it was read: its text, or that there is none. With reached
// false, the site did not answer, or with an error of its own. It reports whether the site has
// opted out, and whether that is new or has just ended.
func (o *OptOuts) Read(
	name string, text []byte, reached bool, now time.Time,
) (out, changed bool, err error) {
	stated, until := ParseOptOut(text)
	o.mu.Lock()
	s := cmp.Or(o.obeyed[name], o.claims[name])
	if s == nil {
		s = new(origin)
	}
	before := s.until
	switch limit := now.Add(OptOutLifetime); {
	case !reached && before.IsZero():
	case !reached:
		s.until = clock.Later(before, now.Add(unreachableFor))
	case !stated || !until.IsZero() && !until.After(now):
		s.until = time.Time{}
	case until.IsZero() || until.After(limit):
		s.until = limit
	default:
		s.until = until
	}
	out = !s.until.IsZero()
	changed = out != !before.IsZero()
	if s.vain++; changed {
		s.vain = 0
	}
	s.claimed, s.next = false, now.Add(min(minRead<<min(s.vain, 8), maxRead))
	o.forget(name)
	delete(o.claims, name)
	forgotten := ""
	if out {
		if changed {
			forgotten = o.makeRoom(name)
		}
		o.obey(name, s)
	} else if len(o.claims) < maxClaims {
		o.claims[name] = s
	}
	saved := OptOut{name, s.until}
	o.mu.Unlock()
	if o.save != nil && forgotten != "" {
		err = o.save(OptOut{Origin: forgotten})
	}
	if o.save != nil && (changed || out && !saved.Until.Equal(before)) {
		err = errors.Join(err, o.save(saved))
	}
	return out, changed, err
}

// Known reports whether an origin is obeyed, or was claimed to have opted out.
func (o *OptOuts) Known(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.obeyed[name] != nil || o.claims[name] != nil
}

// Until returns until when an opt-out of a host is obeyed; zero: none is.
func (o *OptOuts) Until(host string) (until time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range o.hosts[host] {
		until = clock.Later(until, o.obeyed[name].until)
	}
	return until
}

// All returns the opt-outs that are obeyed, by origin.
func (o *OptOuts) All() []OptOut {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []OptOut
	for _, name := range slices.Sorted(maps.Keys(o.obeyed)) {
		all = append(all, OptOut{name, o.obeyed[name].until})
	}
	return all
}

// Stop ends requests to an address for MaxStop. The caller has proof that the address wants it. It
// reports whether there was room for it.
func (o *OptOuts) Stop(addr netip.Addr, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.stops, func(_ netip.Addr, until time.Time) bool { return !until.After(now) })
	addr = addr.Unmap()
	if _, again := o.stops[addr]; !again && len(o.stops) >= maxStops {
		return false
	}
	o.stops[addr] = now.Add(MaxStop)
	return true
}

// Stopped returns until when an address must not be requested; zero: it may be.
func (o *OptOuts) Stopped(addr netip.Addr, now time.Time) (until time.Time) {
	if o == nil {
		return until
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if until = o.stops[addr.Unmap()]; !until.After(now) {
		return time.Time{}
	}
	return until
}

// Check returns nil if a URL may be requested at an address; an error matches ErrDenied. The files
// of opt-outs may always be read. A URL of "" and an invalid address are not checked.
func (o *OptOuts) Check(u store.URL, addr netip.Addr) error {
	if o == nil {
		return nil
	}
	now := time.Now()
	if until := o.Stopped(addr, now); !until.IsZero() {
		return fmt.Errorf("%w until %v: %s", ErrStopped, until.UTC().Round(time.Second), addr)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if u == "" || len(o.obeyed) == 0 || strings.HasSuffix(string(u), OptOutPath) &&
		string(u) == u.Origin()+OptOutPath {
		return nil
	}
	for _, name := range origins(u) {
		if s := o.obeyed[name]; s != nil {
			return fmt.Errorf("%w: %s says so", ErrOptedOut, name+OptOutPath)
		}
	}
	return nil
}
