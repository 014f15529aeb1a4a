package traffic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// The least limits that Validate accepts: with less a peer cannot stay in its network.
const (
	MinBandwidth = 20e3
	MinVolume    = 10e6
)

// ErrUsedUp says that the volume of this month is used up.
var ErrUsedUp = errors.New("the traffic volume of this month is used up")

// Class is a kind of traffic.
type Class int

// The classes, most important first.
const (
	Control Class = iota // with other peers and name servers
	Crawl                // with web servers
	numClasses
)

// controlShare is the part of the bucket that Crawl leaves to Control. While Control waits, the
// bucket has less, so that Crawl gets nothing.
const controlShare = 0.5

// Limits are the limits on all traffic. 0 means no limit.
type Limits struct {
	Bandwidth     int64 // bytes per second, sent and received together
	MonthlyVolume int64 // bytes per calendar month (UTC), sent and received together
}

// Validate returns an error that lists every fault of l.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		name       string
		value, min int64
	}{{"Bandwidth", l.Bandwidth, MinBandwidth}, {"MonthlyVolume", l.MonthlyVolume, MinVolume}} {
		if f.value != 0 && f.value < f.min {
			errs = append(errs, fmt.Errorf("traffic: %s is %d, want 0 or at least %d",
				f.name, f.value, f.min))
		}
	}
	return errors.Join(errs...)
}

// Limited reports whether there is any limit.
func (l Limits) Limited() bool { return l.Bandwidth > 0 || l.MonthlyVolume > 0 }

// Limiter limits the traffic of a process. Its methods are safe for concurrent use.
type Limiter struct {
	store   Store
	limited atomic.Bool              // there is a limit
	waiting [numClasses]atomic.Int64 // operations that wait for the bucket
	turns   [numClasses]chan struct{}
	saving  chan struct{} // held while the count is saved

	mu     sync.Mutex // not held during I/O
	limits Limits
	bucket bucket
	meter  meter
	count  count
}

// New returns a Limiter that continues the count of the store.
func New(limits Limits, store Store) (*Limiter, error) {
	m, err := store.Load()
	if err != nil {
		return nil, fmt.Errorf("read monthly volume: %w", err)
	}
	l := &Limiter{store: store, saving: make(chan struct{}, 1), count: count{m, m.Bytes}}
	for i := range l.turns {
		l.turns[i] = make(chan struct{}, 1)
	}
	return l, l.Change(limits)
}

// Change replaces the limits from now on. Without a limit nothing is counted.
func (l *Limiter) Change(limits Limits) error {
	if err := limits.Validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
	l.bucket.change(float64(limits.Bandwidth), time.Now())
	l.limited.Store(limits.Limited())
	return nil
}

// Close stores the exact count. The connections must be closed before.
func (l *Limiter) Close() error {
	l.mu.Lock()
	m, volume := l.count.month, l.limits.MonthlyVolume
	l.mu.Unlock()
	if volume == 0 {
		return nil
	}
	return l.store.Save(m)
}

// Usage is the state of a Limiter.
type Usage struct {
	Limits Limits
	Rate   float64   // bytes per second in the last 10 s
	Month  int64     // bytes in this month
	Ends   time.Time // end of this month
	// Waiting says that traffic with web servers waits for bandwidth.
	Waiting bool
	// UsedUp says which classes may use no more of the volume.
	UsedUp [numClasses]bool
}

// Usage returns the state. Without a limit it is zero.
func (l *Limiter) Usage() Usage {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	u := Usage{Limits: l.limits, Rate: l.meter.rate(now), Waiting: l.waiting[Crawl].Load() > 0}
	if volume := l.limits.MonthlyVolume; volume > 0 {
		l.count.turn(now)
		u.Month, u.Ends = l.count.month.Bytes, l.count.month.Start.AddDate(0, 1, 0)
		for c := range numClasses {
			u.UsedUp[c] = u.Month >= ceiling(c, volume)
		}
	}
	return u
}

// UsedUp reports whether a class may use no more of the volume of this month.
func (l *Limiter) UsedUp(c Class) bool { return l.limited.Load() && l.Usage().UsedUp[c] }

// Queue returns how many operations of a class wait for bandwidth.
func (l *Limiter) Queue(c Class) int { return int(l.waiting[c].Load()) }

// sizes are the lengths of operations and buffers at a bandwidth. Bytes.
type sizes struct {
	chunk  int64 // of one operation at most
	ahead  int64 // that a web server may send before they are counted; 0: none
	buffer int   // of a socket to another peer; 0: that of the system
}

func (l *Limiter) sizes() sizes {
	l.mu.Lock()
	rate := l.limits.Bandwidth
	l.mu.Unlock()
	if rate == 0 {
		return sizes{chunk: 64 << 10}
	}
	return sizes{
		chunk:  min(max(rate/32, 1<<10), 64<<10),
		ahead:  min(max(rate/64, 8<<10), 1<<20),
		buffer: int(min(max(rate/10, 32<<10), 1<<20)),
	}
}

// take waits until n bytes may pass. It returns early with the error of stop.
func (l *Limiter) take(c Class, n int64, s *stops) error {
	if !l.limited.Load() {
		return nil
	}
	for n > 0 {
		part := min(n, l.sizes().chunk)
		if err := l.spend(c, part); err != nil {
			return err
		}
		if err := l.pace(c, part, s); err != nil {
			l.spendNow(-part)
			return err
		}
		n -= part
	}
	return nil
}

// charge counts n bytes that have passed without waiting; later ones wait. A negative n returns
// bytes that were taken and have not passed.
func (l *Limiter) charge(n int64) {
	if !l.limited.Load() {
		return
	}
	l.spendNow(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.bucket.fill(now)
	l.bucket.tokens = min(l.bucket.tokens-float64(n), l.bucket.size())
	l.meter.add(n, now)
}

// pace waits for n bytes of bandwidth.
func (l *Limiter) pace(c Class, n int64, s *stops) error {
	l.waiting[c].Add(1)
	defer l.waiting[c].Add(-1)
	select {
	case l.turns[c] <- struct{}{}:
	default:
		if err := s.wait(l.turns[c], nil); err != nil {
			return err
		}
	}
	defer func() { <-l.turns[c] }()
	for {
		d := l.tryPace(c, n)
		if d == 0 {
			return nil
		}
		t := time.NewTimer(d)
		err := s.wait(nil, t.C)
		t.Stop()
		if err != nil {
			return err
		}
	}
}

// tryPace takes n bytes of bandwidth and returns 0, or returns how long to wait.
func (l *Limiter) tryPace(c Class, n int64) time.Duration {
	keep := 0.0
	if c == Crawl {
		keep = controlShare
	}
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.bucket.take(n, keep, now)
	if d == 0 {
		l.meter.add(n, now)
	}
	return d
}

// spend counts n bytes of the volume.
func (l *Limiter) spend(c Class, n int64) error {
	for {
		to, err := l.trySpend(c, n)
		if err != nil || to == nil {
			return err
		}
		if err := l.save(*to); err != nil {
			return err
		}
	}
}

// spendNow counts n bytes that have passed already, which the margin of what is stored covers, or
// returns those of a negative n. A volume that is used up stays so.
func (l *Limiter) spendNow(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	volume := l.limits.MonthlyVolume
	if volume == 0 {
		return
	}
	l.count.turn(time.Now())
	if n > 0 || l.count.month.Bytes < ceiling(Crawl, volume) {
		l.count.month.Bytes = max(l.count.month.Bytes+n, 0)
	}
}

// trySpend counts n bytes, or returns what must be saved before.
func (l *Limiter) trySpend(c Class, n int64) (save *Month, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	volume := l.limits.MonthlyVolume
	if volume == 0 {
		return nil, nil
	}
	l.count.turn(time.Now())
	next := l.count.month.Bytes + n
	if next > ceiling(c, volume) {
		l.count.month.Bytes = max(l.count.month.Bytes, ceiling(c, volume))
		return nil, ErrUsedUp
	}
	if next+block(volume) > l.count.stored {
		return &Month{Start: l.count.month.Start, Bytes: storeUpTo(next, c, volume)}, nil
	}
	l.count.month.Bytes = next
	return nil, nil
}

// save stores m unless another operation has stored as much.
func (l *Limiter) save(m Month) error {
	l.saving <- struct{}{}
	defer func() { <-l.saving }()
	stored := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.count.month.Start.Equal(m.Start) || l.count.stored >= m.Bytes
	}
	if stored() {
		return nil
	}
	if err := l.store.Save(m); err != nil {
		return fmt.Errorf("save monthly volume: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count.month.Start.Equal(m.Start) {
		l.count.stored = m.Bytes
	}
	return nil
}
