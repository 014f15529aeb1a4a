package traffic

import "time"

const (
	// burst is the time for which unused bandwidth accumulates.
	burst = 150 * time.Millisecond
	// fillPart is the part of the bandwidth with which the bucket is filled: sockets hold bytes
	// that were counted before, and let them pass together.
	fillPart = 0.98
	// window is the time over which the rate is measured.
	window = 10 * time.Second
)

// A bucket holds the bytes that may pass now. It is not safe for concurrent use.
type bucket struct {
	rate   float64 // bytes per second; 0: no limit
	tokens float64 // may be negative
	at     time.Time
}

func (b *bucket) size() float64 { return b.rate * burst.Seconds() }

// change sets the rate. What was in the bucket remains, up to its new size; what passed while there
// was no limit is no debt.
func (b *bucket) change(rate float64, now time.Time) {
	b.fill(now)
	if b.rate == 0 {
		b.tokens = 0
	}
	b.rate = rate * fillPart
	b.tokens = min(b.tokens, b.size())
}

func (b *bucket) fill(now time.Time) {
	if since := now.Sub(b.at); since > 0 {
		b.tokens = min(b.size(), b.tokens+b.rate*since.Seconds())
	}
	b.at = now
}

// take takes n bytes if the bucket then still has the part keep of its size, and returns 0, or
// returns how long to wait for that. If n is more than a quarter of the size, a quarter will do.
func (b *bucket) take(n int64, keep float64, now time.Time) time.Duration {
	if b.rate == 0 {
		return 0
	}
	b.fill(now)
	need := min(float64(n), b.size()/4) + keep*b.size()
	if lack := need - b.tokens; lack > 0 {
		return time.Duration(lack/b.rate*float64(time.Second)) + time.Microsecond
	}
	b.tokens -= float64(n)
	return 0
}

// meter measures the bytes of the last window. It is not safe for concurrent use.
type meter struct {
	second [window / time.Second]int64 // of each second
	last   int64                       // the second that was counted last
}

func (m *meter) add(n int64, now time.Time) {
	m.advance(now)
	m.second[m.last%int64(len(m.second))] += n
}

func (m *meter) advance(now time.Time) {
	at := now.Unix()
	if at < m.last-int64(len(m.second)) { // the clock was set back
		*m = meter{last: at}
	}
	for s := max(m.last+1, at-int64(len(m.second))+1); s <= at; s++ {
		m.second[s%int64(len(m.second))] = 0
	}
	m.last = max(m.last, at)
}

// rate returns the mean of the window in bytes per second.
func (m *meter) rate(now time.Time) float64 {
	m.advance(now)
	sum := int64(0)
	for _, n := range m.second {
		sum += n
	}
	return float64(sum) / window.Seconds()
}
