package fetch

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// pool keeps idle connections, bounded in all and per key. Nothing is closed
// or probed while its mutex is held.
type pool struct {
	max, perKey int

	mu     sync.Mutex
	idle   map[connKey][]*conn     // of one key, the longest idle first
	age    *list.List              // of *conn, the longest idle first
	places map[*conn]*list.Element // where each is in age
	closed bool
}

func newPool(maxIdle, perKey int) *pool {
	return &pool{
		max: maxIdle, perKey: perKey,
		idle: make(map[connKey][]*conn), age: list.New(), places: make(map[*conn]*list.Element),
	}
}

// take returns a connection for key that was alive a moment ago, with one
// request reserved on it, or nil. The last one used comes first.
func (p *pool) take(key connKey) *conn {
	for {
		c := p.newest(key)
		if c == nil {
			return nil
		}
		if !c.stale() && c.usable() && c.cc.Reserve() == nil {
			return c
		}
		c.close()
	}
}

// newest removes and returns the last used connection of key, or nil.
func (p *pool) newest(key connKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.idle[key]
	if len(of) == 0 {
		return nil
	}
	c := of[len(of)-1]
	p.removeLocked(c)
	return c
}

// put takes c back after a request, or closes it if it can carry no other.
func (p *pool) put(c *conn) {
	if !c.usable() || c.idleFor <= 0 {
		c.close()
		return
	}
	if !c.h2 { // HTTP/2 has frames of its own at any time
		c.wire.resting.Store(true)
	}
	if victim := p.add(c); victim != nil {
		victim.close()
	}
}

// add makes c idle, and returns the connection that has to go for it, if any;
// that may be c itself.
func (p *pool) add(c *conn) (victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.perKey == 0 || p.max == 0 {
		return c
	}
	if of := p.idle[c.key]; len(of) >= p.perKey {
		victim = of[0]
	} else if p.age.Len() >= p.max {
		victim = p.age.Front().Value.(*conn)
	}
	if victim != nil {
		p.removeLocked(victim)
	}
	p.idle[c.key] = append(p.idle[c.key], c)
	p.places[c] = p.age.PushBack(c)
	if c.timer == nil {
		c.timer = time.AfterFunc(c.idleFor, func() { p.expire(c) })
	} else {
		c.timer.Reset(c.idleFor)
	}
	return victim
}

// expire closes c if it is still idle. A timer that fires late, when c was
// taken and put back, costs at most a connection.
func (p *pool) expire(c *conn) {
	p.mu.Lock()
	ok := p.removeLocked(c)
	p.mu.Unlock()
	if ok {
		c.close()
	}
}

// removeLocked forgets the idle connection c and says whether it was idle.
func (p *pool) removeLocked(c *conn) bool {
	place, ok := p.places[c]
	if !ok {
		return false
	}
	c.timer.Stop()
	p.age.Remove(place)
	delete(p.places, c)
	of := slices.DeleteFunc(p.idle[c.key], func(o *conn) bool { return o == c })
	if len(of) == 0 {
		delete(p.idle, c.key)
	} else {
		p.idle[c.key] = of
	}
	return true
}

// close closes every idle connection; those put back later are closed too.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var all []*conn
	for p.age.Len() > 0 {
		c := p.age.Front().Value.(*conn)
		p.removeLocked(c)
		all = append(all, c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}
