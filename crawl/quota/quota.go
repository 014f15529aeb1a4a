package quota

import (
	"fmt"
	"sync"
	"time"

	"peerd/internal/faults"
)

const (
	day = 24 * time.Hour
	// bandwidthBurst is the time for which unused bandwidth accumulates.
	bandwidthBurst = 10 * time.Second
	// initialMeanBytes is the assumed size of an answer before any is known. meanWindow is
	// the number of answers over which the mean size is averaged.
	initialMeanBytes = 100e3
	meanWindow       = 100
	// maxStoredAhead is how far in the future a stored time may be. The clock may have been
	// wrong when it was stored.
	maxStoredAhead = day + time.Hour
)

// Config defines the limits. The zero Config has none.
type Config struct {
	// Requests is the maximum number of requests in any 24 hours; 0 means no limit.
	Requests int64
	// Bytes is the maximum number of bytes of bodies per second; 0 means no limit.
	Bytes float64
	// OpenPerDay is the part of a day in which requests may be sent; 0 means always.
	// UntilOpen returns how long it is until then; nil means always open.
	OpenPerDay time.Duration
	UntilOpen  func(now time.Time) time.Duration
	// Store keeps one time across restarts. If nil, nothing is stored.
	Store Store
}

// A Store stores one time.
type Store interface {
	// Load returns the time; ok is false if none is stored.
	Load() (at time.Time, ok bool, err error)
	// Save returns only when the time is on disk.
	Save(at time.Time) error
}

// Validate returns an error that lists every fault of c.
func (c Config) Validate() error {
	f := faults.Of("quota")
	f.If(c.Requests < 0 || c.Requests > 1e12, "Requests is %d, want 0 to 1e12", c.Requests)
	f.If(!(c.Bytes >= 0), "Bytes is %v, want 0 or more", c.Bytes)
	f.If(c.OpenPerDay < 0 || c.OpenPerDay > day, "OpenPerDay is %v, want 0 to 24h", c.OpenPerDay)
	return f.Err()
}

// Quota is safe for concurrent use. A nil Quota has no limits.
type Quota struct {
	cfg       Config
	interval  time.Duration // between two requests in the long run; 0: no limit
	tolerance time.Duration // burst tolerance: how early a request may be
	saveAhead time.Duration // how far ahead nextDue is stored

	sem chan struct{} // held while taking, which may wait for the disk

	mu         sync.Mutex // also guards the fields above sem, except cfg.UntilOpen and cfg.Store
	nextDue    time.Time  // when the next request conforms without a burst
	saved      time.Time  // nextDue is stored up to this time
	byteTokens float64    // bytes available
	filledAt   time.Time  // when byteTokens was computed
	meanBytes  float64    // average size of an answer
}

// New returns a Quota that continues where the stored one ended.
func New(c Config, now time.Time) (*Quota, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	q := &Quota{cfg: c, sem: make(chan struct{}, 1), filledAt: now, meanBytes: initialMeanBytes}
	q.pace()
	if c.Requests == 0 || c.Store == nil {
		return q, nil
	}
	at, ok, err := c.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("quota: %w", err)
	}
	if ok {
		if last := now.Add(maxStoredAhead); at.After(last) {
			at = last
		}
		q.nextDue, q.saved = at, at
	}
	return q, nil
}

// pace computes the interval and the burst of requests from cfg.
func (q *Quota) pace() {
	c := q.cfg
	if q.interval, q.tolerance, q.saveAhead = 0, 0, 0; c.Requests == 0 {
		return
	}
	burst := max(1, c.Requests/24)
	fill, open := c.Requests-burst+1, day
	if c.OpenPerDay > 0 && c.OpenPerDay < day {
		fill, open = c.Requests-2*burst+1, c.OpenPerDay
		if fill < 1 { // one per day: not at the end of one period and the start of the next
			fill, open = 1, day
		}
	}
	q.interval = (open + time.Duration(fill) - 1) / time.Duration(fill)
	q.tolerance = time.Duration(burst-1) * q.interval
	q.saveAhead = time.Duration(max(1, burst/8)-1) * q.interval
}

// Change replaces the limits from now on; the arguments are the fields of Config. A burst that was
// used up under the old limits is not granted again, but the next request waits for one interval
// of the new ones at most.
func (q *Quota) Change(requests int64, bytes float64, open time.Duration, now time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.cfg
	c.Requests, c.Bytes, c.OpenPerDay = requests, bytes, open
	if err := c.Validate(); err != nil {
		return err
	}
	q.cfg.Requests, q.cfg.Bytes, q.cfg.OpenPerDay = requests, bytes, open // others read the rest
	q.pace()
	if last := now.Add(q.tolerance + q.interval); q.nextDue.After(last) {
		q.nextDue = last
	}
	q.byteTokens, q.filledAt = min(q.byteTokens, bytes*bandwidthBurst.Seconds()), now
	return nil
}

// Wait returns how long no request may be sent, or 0.
func (q *Quota) Wait(now time.Time) time.Duration {
	if q == nil {
		return 0
	}
	if q.cfg.UntilOpen != nil {
		if wait := q.cfg.UntilOpen(now); wait > 0 {
			return wait
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.requestsLocked(now), q.bytesLocked(now))
}

// RequestWait is Wait considering only the number of requests.
func (q *Quota) RequestWait(now time.Time) time.Duration {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.requestsLocked(now)
}

func (q *Quota) requestsLocked(now time.Time) time.Duration {
	if q.interval == 0 {
		return 0
	}
	return max(0, q.nextDue.Add(-q.tolerance).Sub(now))
}

// bytesLocked fills the bucket of bytes up to now and returns how long to wait for it.
func (q *Quota) bytesLocked(now time.Time) time.Duration {
	rate := q.cfg.Bytes
	if rate == 0 {
		return 0
	}
	if since := now.Sub(q.filledAt); since > 0 {
		q.byteTokens = min(rate*bandwidthBurst.Seconds(), q.byteTokens+rate*since.Seconds())
		q.filledAt = now
	}
	if q.byteTokens > 0 {
		return 0
	}
	return time.Duration(-q.byteTokens/rate*float64(time.Second)) + time.Millisecond
}

// A Ticket permits one request. Done must be called when the request has ended. The zero
// Ticket is valid.
type Ticket struct {
	q       *Quota
	charged float64
}

// Acquire returns the Ticket for a request that is sent now; ok is false if none may be
// sent. The error comes from Save; then no request may be sent either.
func (q *Quota) Acquire(now time.Time) (t Ticket, ok bool, err error) {
	if q == nil {
		return t, true, nil
	}
	q.sem <- struct{}{}
	defer func() { <-q.sem }()
	if q.Wait(now) > 0 {
		return t, false, nil
	}
	t, err = q.charge(now)
	return t, err == nil, err
}

// Borrow is Acquire for a request that must follow one already sent. It is always
// permitted, and later requests wait for it.
func (q *Quota) Borrow(now time.Time) (Ticket, error) {
	if q == nil {
		return Ticket{}, nil
	}
	q.sem <- struct{}{}
	defer func() { <-q.sem }()
	return q.charge(now)
}

// charge charges for a request. The caller holds sem.
func (q *Quota) charge(now time.Time) (Ticket, error) {
	q.mu.Lock()
	at := q.nextDue
	if at.Before(now) {
		at = now
	}
	at = at.Add(q.interval)
	var upTo time.Time
	if q.interval > 0 && at.After(q.saved) {
		upTo = at.Add(q.saveAhead)
	}
	q.mu.Unlock()
	if !upTo.IsZero() && q.cfg.Store != nil {
		if err := q.cfg.Store.Save(upTo); err != nil {
			return Ticket{}, fmt.Errorf("quota: %w", err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nextDue = at
	if !upTo.IsZero() {
		q.saved = upTo
	}
	t := Ticket{q: q}
	if q.cfg.Bytes > 0 {
		t.charged = q.meanBytes
		q.byteTokens -= t.charged
	}
	return t, nil
}

// Done reports the number of bytes that the request returned.
func (t Ticket) Done(bytes int64) {
	q := t.q
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cfg.Bytes == 0 {
		return
	}
	q.byteTokens += t.charged - float64(bytes)
	q.meanBytes += (float64(bytes) - q.meanBytes) / meanWindow
}
