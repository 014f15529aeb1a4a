package quota

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	day = 24 * time.Hour
	// bytesBurst is how much of a bandwidth may be used at once.
	bytesBurst = 10 * time.Second
	// plainAnswer is the size of an answer before some are known, and memory the
	// number of answers after which one counts for a third, in bytes.
	plainAnswer = 100e3
	memory      = 100
	// farthest bounds what is believed of the past: a clock may have been wrong.
	farthest = day + time.Hour
)

// Config says what the bounds are. The zero Config has none.
type Config struct {
	// Requests is how many may be sent in any 24 hours; 0: no bound.
	Requests int64
	// Bytes is how many of bodies may come a second; 0: no bound.
	Bytes float64
	// Open is how long of a day requests are sent at all; 0: always. Wait says how
	// long it is until then; nil: it is always now.
	Open time.Duration
	Wait func(now time.Time) time.Duration
	// Load and Save keep one time over restarts; ok is false when there is none.
	// Save returns when it is on the disk. Nil: nothing is kept.
	Load func() (at time.Time, ok bool, err error)
	Save func(at time.Time) error
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	if c.Requests < 0 || c.Requests > 1e12 {
		errs = append(errs, fmt.Errorf("quota: Requests is %d, want 0 to 1e12", c.Requests))
	}
	if !(c.Bytes >= 0) {
		errs = append(errs, fmt.Errorf("quota: Bytes is %v, want 0 or more", c.Bytes))
	}
	if c.Open < 0 || c.Open > day {
		errs = append(errs, fmt.Errorf("quota: Open is %v, want 0 to 24h", c.Open))
	}
	return errors.Join(errs...)
}

// Quota is safe for concurrent use. A nil Quota has no bounds.
type Quota struct {
	cfg   Config
	step  time.Duration // between two requests in the long run; 0: no bound
	slack time.Duration // how far ahead of that they may be
	ahead time.Duration // how far ahead the time is written down

	turn chan struct{} // one token: who takes may have to wait for the disk

	mu    sync.Mutex
	at    time.Time // when the next request would be due if none were ahead
	saved time.Time // at is written down up to here
	level float64   // bytes that may come
	seen  time.Time // when level was as it is
	mean  float64   // bytes of an answer
}

// New returns a Quota that goes on where the last one ended.
func New(c Config, now time.Time) (*Quota, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	q := &Quota{cfg: c, turn: make(chan struct{}, 1), seen: now, mean: plainAnswer}
	if c.Requests == 0 {
		return q, nil
	}
	burst := max(1, c.Requests/24)
	fill, open := c.Requests-burst+1, day
	if c.Open > 0 && c.Open < day {
		fill, open = c.Requests-2*burst+1, c.Open
		if fill < 1 { // one a day: not at the end of one span and the beginning of the next
			fill, open = 1, day
		}
	}
	q.step = (open + time.Duration(fill) - 1) / time.Duration(fill)
	q.slack = time.Duration(burst-1) * q.step
	q.ahead = time.Duration(max(1, burst/8)-1) * q.step
	if c.Load == nil {
		return q, nil
	}
	at, ok, err := c.Load()
	if err != nil {
		return nil, fmt.Errorf("quota: %w", err)
	}
	if ok {
		if last := now.Add(farthest); at.After(last) {
			at = last
		}
		q.at, q.saved = at, at
	}
	return q, nil
}

// Wait returns how long no request may be sent; 0 when one may be now.
func (q *Quota) Wait(now time.Time) time.Duration {
	if q == nil {
		return 0
	}
	if q.cfg.Wait != nil {
		if wait := q.cfg.Wait(now); wait > 0 {
			return wait
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return max(q.requestsLocked(now), q.bytesLocked(now))
}

// Spent is Wait of the requests alone.
func (q *Quota) Spent(now time.Time) time.Duration {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.requestsLocked(now)
}

func (q *Quota) requestsLocked(now time.Time) time.Duration {
	if q.step == 0 {
		return 0
	}
	return max(0, q.at.Add(-q.slack).Sub(now))
}

// bytesLocked fills the bucket up to now.
func (q *Quota) bytesLocked(now time.Time) time.Duration {
	rate := q.cfg.Bytes
	if rate == 0 {
		return 0
	}
	if since := now.Sub(q.seen); since > 0 {
		q.level = min(rate*bytesBurst.Seconds(), q.level+rate*since.Seconds())
		q.seen = now
	}
	if q.level > 0 {
		return 0
	}
	return time.Duration(-q.level/rate*float64(time.Second)) + time.Millisecond
}

// A Ticket is for one request. Done must be called when that has ended. The zero
// Ticket is one too.
type Ticket struct {
	q       *Quota
	charged float64
}

// Take returns the Ticket for a request that is sent now; ok is false if none may
// be. The error is one of Save, and then none may be.
func (q *Quota) Take(now time.Time) (t Ticket, ok bool, err error) {
	if q == nil {
		return t, true, nil
	}
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	if q.Wait(now) > 0 {
		return t, false, nil
	}
	t, err = q.take(now)
	return t, err == nil, err
}

// Borrow is Take for a request that goes with one that was sent: it is let in,
// and those that come later wait for it.
func (q *Quota) Borrow(now time.Time) (Ticket, error) {
	if q == nil {
		return Ticket{}, nil
	}
	q.turn <- struct{}{}
	defer func() { <-q.turn }()
	return q.take(now)
}

// take charges for a request. Whoever calls it has the turn.
func (q *Quota) take(now time.Time) (Ticket, error) {
	q.mu.Lock()
	at := q.at
	if at.Before(now) {
		at = now
	}
	at = at.Add(q.step)
	upTo := time.Time{}
	if q.step > 0 && at.After(q.saved) {
		upTo = at.Add(q.ahead)
	}
	q.mu.Unlock()
	if !upTo.IsZero() && q.cfg.Save != nil {
		if err := q.cfg.Save(upTo); err != nil {
			return Ticket{}, fmt.Errorf("quota: %w", err)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.at = at
	if !upTo.IsZero() {
		q.saved = upTo
	}
	t := Ticket{q: q}
	if q.cfg.Bytes > 0 {
		t.charged = q.mean
		q.level -= t.charged
	}
	return t, nil
}

// Done says how many bytes came of the request.
func (t Ticket) Done(bytes int64) {
	if t.q == nil || t.q.cfg.Bytes == 0 {
		return
	}
	q := t.q
	q.mu.Lock()
	defer q.mu.Unlock()
	q.level += t.charged - float64(bytes)
	q.mean += (float64(bytes) - q.mean) / memory
}
