package sim

import (
	"container/heap"
	"time"
)

// line is a peer's bandwidth, shared equally by all transfers under way
// (processor sharing). Its own time v is what each of them has got so far, in
// bytes.
type line struct {
	bps   float64 // bytes a second
	v     float64
	seen  time.Duration // when v was brought up to date
	flows flows
	turn  uint64 // of the alarm that counts
}

// flow is one transfer: it is over when v reaches end.
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

// set changes the bandwidth; transfers under way feel it.
func (l *line) set(c *clock, bps float64) {
	l.update(c.now)
	l.bps = bps
	l.alarm(c)
}

// update gives all transfers what they have got until now.
func (l *line) update(now time.Duration) {
	if n := len(l.flows); n > 0 {
		l.v += (now - l.seen).Seconds() * l.bps / float64(n)
	}
	l.seen = now
}

// alarm plans the end of the transfer that ends first; earlier plans are void.
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
