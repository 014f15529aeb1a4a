package crawlsim

import (
	"container/heap"
	"time"
)

// line is the bandwidth of a peer, shared equally by all transfers in progress (processor
// sharing). Its virtual time v is the number of bytes that each of them has received so far.
type line struct {
	bps   float64 // bytes per second
	v     float64
	seen  time.Duration // time of the last update of v
	flows flows
	turn  uint64 // of the current alarm
}

// flow is one transfer: it ends when v reaches end.
type flow struct {
	end  float64
	seq  uint64
	done func()
}

type flows []flow

func (f flows) Len() int { return len(f) }
func (f flows) Less(i, j int) bool {
	return f[i].end < f[j].end || f[i].end == f[j].end && f[i].seq < f[j].seq
}
func (f flows) Swap(i, j int) { f[i], f[j] = f[j], f[i] }
func (f *flows) Push(x any)   { *f = append(*f, x.(flow)) }
func (f *flows) Pop() any {
	old := *f
	x := old[len(old)-1]
	old[len(old)-1] = flow{}
	*f = old[:len(old)-1]
	return x
}

// start begins a transfer; done is called at its end.
func (l *line) start(c *clock, bytes float64, done func()) {
	l.update(c.now)
	heap.Push(&l.flows, flow{l.v + bytes, c.made, done})
	l.alarm(c)
}

// set changes the bandwidth, also of the transfers in progress.
func (l *line) set(c *clock, bps float64) {
	l.update(c.now)
	l.bps = bps
	l.alarm(c)
}

// update advances v to now.
func (l *line) update(now time.Duration) {
	if n := len(l.flows); n > 0 {
		l.v += (now - l.seen).Seconds() * l.bps / float64(n)
	}
	l.seen = now
}

// alarm schedules the end of the transfer that ends first, and cancels the previous alarm.
func (l *line) alarm(c *clock) {
	l.turn++
	if len(l.flows) == 0 {
		return
	}
	turn := l.turn
	left := max(0, l.flows[0].end-l.v) * float64(len(l.flows)) / l.bps
	c.after(time.Duration(left*float64(time.Second))+1, func() {
		if turn != l.turn {
			return
		}
		l.update(c.now)
		var over []func()
		for len(l.flows) > 0 && l.flows[0].end <= l.v+1e-6 {
			over = append(over, heap.Pop(&l.flows).(flow).done)
		}
		l.alarm(c)
		for _, done := range over {
			done()
		}
	})
}
