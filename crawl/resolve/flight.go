package resolve

import (
	"context"
	"net/netip"
	"time"
)

// flight is one lookup on its way, and how many wait for it. The waiters do
// not depend on each other: one that leaves early does not take the lookup
// away from the rest, and when the last one leaves it is cancelled.
type flight struct {
	host    string
	waiters int // guarded by Cache.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed when answer and took are set
	took    time.Duration
	answer  answer
}

// joinLocked returns the lookup of host, started if there is none. c.mu is
// held. The lookup keeps the values of ctx, not its end.
func (c *Cache) joinLocked(ctx context.Context, host string) *flight {
	if fl, ok := c.flights[host]; ok {
		fl.waiters++
		return fl
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	fl := &flight{host: host, waiters: 1, cancel: cancel, done: make(chan struct{})}
	c.flights[host] = fl
	go c.fly(ctx, fl)
	return fl
}

// fly does the lookup and keeps its answer, unless everybody has left.
func (c *Cache) fly(ctx context.Context, fl *flight) {
	defer fl.cancel()
	start := time.Now()
	addrs, err := c.cfg.Lookup(ctx, fl.host)
	fl.took = time.Since(start)
	fl.answer = c.judge(fl.host, addrs, err)

	c.mu.Lock()
	if c.flights[fl.host] == fl {
		delete(c.flights, fl.host)
		c.answers.Add(fl.host, fl.answer)
	}
	c.mu.Unlock()
	close(fl.done)
}

// wait returns the answer of fl, or the error of ctx if that ends first.
func (c *Cache) wait(ctx context.Context, fl *flight) (answer, error) {
	select {
	case <-fl.done:
		return fl.answer, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fl.waiters--; fl.waiters == 0 && c.flights[fl.host] == fl {
		delete(c.flights, fl.host) // the next one to ask starts afresh
		fl.cancel()
	}
	return answer{}, ctx.Err()
}

// judge turns what Lookup said into what is remembered, and for how long.
func (c *Cache) judge(host string, addrs []netip.Addr, err error) answer {
	now := time.Now()
	addrs = normalAddrs(addrs)
	switch {
	case err == nil && len(addrs) > 0:
		return answer{addrs: addrs, expires: now.Add(c.cfg.TTL)}
	case err == nil, final(err):
		return answer{err: &Error{Host: host, kind: ErrNotFound, cause: err}, expires: now.Add(c.cfg.NegativeTTL)}
	default:
		return answer{err: &Error{Host: host, kind: ErrTemporary, cause: err}, expires: now.Add(c.cfg.Retry)}
	}
}
