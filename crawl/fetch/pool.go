package fetch

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// pool keeps idle connections; their number is limited in total and per key. Those to hosts of
// which nothing more is wanted for now are closed first. No connection is closed or checked while
// the mutex is held.
type pool struct {
	max, perKey int

	mu     sync.Mutex
	idle   map[string][]*conn // by host name, least recently used first
	order  *list.List         // of *conn, the first to be closed first
	closed bool
}

func newPool(maxIdle, perKey int) *pool {
	return &pool{max: maxIdle, perKey: perKey, idle: map[string][]*conn{}, order: list.New()}
}

// get returns a connection for key that is open and has one request reserved, or nil. It prefers
// the most recently used one.
func (p *pool) get(key connKey) *conn {
	for {
		c := p.popNewest(key)
		if c == nil {
			return nil
		}
		if !c.stale() && c.usable() && c.cc.Reserve() == nil {
			return c
		}
		c.close()
	}
}

// popNewest removes and returns the most recently used connection of key, or nil.
func (p *pool) popNewest(key connKey) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range slices.Backward(p.idle[key.name()]) {
		if c.key == key {
			p.removeLocked(c)
			return c
		}
	}
	return nil
}

// put returns c to the pool after a request, or closes it if it cannot carry another one.
func (p *pool) put(c *conn) {
	if !c.usable() || c.idleTimeout <= 0 {
		c.close()
		return
	}
	if !c.h2 && !c.fresh { // HTTP/2 sends frames at any time, TLS 1.3 tickets after the handshake
		c.wire.idle.Store(true)
	}
	if victim := p.add(c); victim != nil {
		victim.close()
	}
}

// add adds c, and returns the connection that must be closed for it, if any; this may be c itself.
func (p *pool) add(c *conn) (victim *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.perKey == 0 || p.max == 0 {
		return c
	}
	if victim = p.victimLocked(c.key); victim != nil {
		p.removeLocked(victim)
	}
	p.idle[c.key.name()] = append(p.idle[c.key.name()], c)
	c.place = p.order.PushBack(c)
	if c.timer == nil {
		c.timer = time.AfterFunc(c.idleTimeout, func() { p.expire(c) })
	} else {
		c.timer.Reset(c.idleTimeout)
	}
	return victim
}

// victimLocked returns the connection that must be closed before one of key is added, or nil.
func (p *pool) victimLocked(key connKey) *conn {
	var oldest *conn
	n := 0
	for _, c := range p.idle[key.name()] {
		if c.key != key {
			continue
		}
		if n++; n == 1 {
			oldest = c
		}
	}
	switch {
	case n >= p.perKey:
		return oldest
	case p.order.Len() < p.max:
		return nil
	}
	return p.order.Front().Value.(*conn)
}

// leave makes the idle connections to a host the first to be closed, until they are used again.
func (p *pool) leave(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle[host] {
		p.order.MoveToFront(c.place)
	}
}

// expire closes c if it is still idle. If the timer fires late, after c was used and returned, a
// usable connection may be closed.
func (p *pool) expire(c *conn) {
	p.mu.Lock()
	ok := p.removeLocked(c)
	p.mu.Unlock()
	if ok {
		c.close()
	}
}

// removeLocked removes the idle connection c and reports whether it was idle.
func (p *pool) removeLocked(c *conn) bool {
	if c.place == nil {
		return false
	}
	c.timer.Stop()
	p.order.Remove(c.place)
	c.place = nil
	name := c.key.name()
	of := slices.DeleteFunc(p.idle[name], func(o *conn) bool { return o == c })
	if len(of) == 0 {
		delete(p.idle, name)
	} else {
		p.idle[name] = of
	}
	return true
}

// close closes all idle connections; those that are returned later are closed as well.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var all []*conn
	for _, of := range p.idle {
		all = append(all, of...)
	}
	for _, c := range all {
		p.removeLocked(c)
	}
	p.mu.Unlock()
	for _, c := range all {
		c.close()
	}
}
