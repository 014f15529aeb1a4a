package crawlsim

import "time"

// clock is virtual time: a queue of events, ordered by their time and then by their creation.
type clock struct {
	now    time.Duration
	events []event // a binary heap
	made   uint64
	done   uint64
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// at schedules do for a time; a time in the past means now.
func (c *clock) at(t time.Duration, do func()) {
	e := event{max(t, c.now), c.made, do}
	c.made++
	c.events = append(c.events, e)
	i := len(c.events) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(c.events[up]) {
			break
		}
		c.events[i] = c.events[up]
		i = up
	}
	c.events[i] = e
}

// after schedules do for the time d from now.
func (c *clock) after(d time.Duration, do func()) { c.at(c.now+max(d, 0), do) }

// next runs the next event unless it is later than end. It reports whether it ran one.
func (c *clock) next(end time.Duration) bool {
	if len(c.events) == 0 || c.events[0].at > end {
		return false
	}
	first := c.events[0]
	last := len(c.events) - 1
	e := c.events[last]
	c.events[last] = event{}
	c.events = c.events[:last]
	i := 0
	for {
		child := 2*i + 1
		if child >= last {
			break
		}
		if child+1 < last && c.events[child+1].before(c.events[child]) {
			child++
		}
		if !c.events[child].before(e) {
			break
		}
		c.events[i] = c.events[child]
		i = child
	}
	if last > 0 {
		c.events[i] = e
	}
	c.now = first.at
	c.done++
	first.do()
	return true
}
