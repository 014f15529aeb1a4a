package fetch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// errTimeout means that the head of a response was not complete within the time for a request.
var errTimeout = errors.New("no response in time")

// progress cancels a request that takes too long. The head of the response must be complete within
// the timeout. After that, the bytes of the body are the measure: at least Config.MinRate in each
// interval of Config.RateWindow; and in all, the time must not exceed the timeout plus a second for
// every Config.SteadyRate bytes. So a large body may come over a slow line, and a server that sends
// a few bytes at a time cannot occupy a worker for long. While other bodies wait for memory, one
// that holds some has less time: three windows, and a second for every hurry times SteadyRate
// bytes.
type progress struct {
	cancel   context.CancelFunc
	window   time.Duration
	minBytes int64 // per window
	steady   int64 // Config.SteadyRate

	mu       sync.Mutex
	timer    *time.Timer
	end      time.Time     // of the time for a request without a body
	received *atomic.Int64 // bytes of the body; nil before its beginning
	last     int64         // value of received at the end of the previous window
	waiting  time.Time     // since when the caller does not read; zero while it does
	memory   *memory       // of which the body holds a part, or nil
	held     time.Time     // since when it does
	wanted   bool          // at the end of the previous window others waited for memory
	err      error         // why the request was cancelled
}

// hurry is how many times faster than usual a body must be received while others wait for its
// memory.
const hurry = 4

// rates are Config.MinRate and Config.SteadyRate.
type rates struct{ minimum, steady int64 }

// SetRates replaces Config.MinRate and Config.SteadyRate for requests that begin from now on.
func (f *Fetcher) SetRates(minimum, steady int64) { f.rates.Store(&rates{minimum, steady}) }

// Rates returns what holds for requests that begin now.
func (f *Fetcher) Rates() (minimum, steady int64) {
	r := f.rates.Load()
	return r.minimum, r.steady
}

// newProgress starts the time of a request.
func (f *Fetcher) newProgress(timeout time.Duration, cancel context.CancelFunc) *progress {
	minimum, steady := f.Rates()
	p := &progress{
		cancel: cancel, window: f.cfg.RateWindow, steady: steady,
		minBytes: int64(float64(minimum) * f.cfg.RateWindow.Seconds()),
		end:      time.Now().Add(timeout),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(timeout, p.check)
	return p
}

// body starts the first window of a body of which received counts the bytes.
func (p *progress) body(received *atomic.Int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.received = received
	p.timer.Reset(p.window)
}

// check evaluates a window, or ends a request without a head.
func (p *progress) check() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.waiting.IsZero():
		return
	case p.received == nil:
		p.err = errTimeout
	default:
		n := p.received.Load()
		if p.err = p.slow(n); p.err == nil {
			p.last = n
			p.timer.Reset(p.window)
			return
		}
	}
	p.cancel()
}

// slow returns why a body of which n bytes were received is too slow, or nil. Others that wait for
// its memory only at the end of this window may get that of another body soon.
func (p *progress) slow(n int64) error {
	now := time.Now()
	earned := time.Duration(float64(n) / float64(p.steady) * float64(time.Second))
	if n-p.last < p.minBytes || now.After(p.end.Add(earned)) {
		return ErrSlow
	}
	before := p.wanted
	p.wanted = p.memory != nil && p.memory.waiting.Load() > 0
	if before && p.wanted && now.After(p.held.Add(3*p.window+earned/hurry)) {
		return fmt.Errorf("%w while others wait for its memory", ErrSlow)
	}
	return nil
}

// hold says that the body holds a part of m from now on.
func (p *progress) hold(m *memory) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.memory, p.held = m, time.Now()
}

// wait says that the caller stops reading for a reason of its own.
func (p *progress) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = time.Now()
	p.timer.Stop()
}

// resume ends wait. The time in between does not count, and a new window begins.
func (p *progress) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end = p.end.Add(time.Since(p.waiting))
	p.waiting = time.Time{}
	p.last = p.received.Load()
	p.timer.Reset(p.window)
}

// stop ends the time of the request, and returns why it was cancelled, or nil. If a window ends at
// the same time, the timer may fire once more; this has no effect.
func (p *progress) stop() error {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
