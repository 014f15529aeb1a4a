package resolve

import (
	"context"
	"errors"
	"time"
)

// call is a lookup in progress, with the number of its waiters. The waiters are independent: the
// lookup continues when one of them stops waiting, and is cancelled when the last one does.
type call struct {
	host    string
	waiters int // guarded by Cache.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed when answer is set
	answer  answer
}

// joinLocked returns the lookup of host, and starts it if there is none. The caller holds c.mu.
// The lookup keeps the values of ctx, but not its cancellation.
func (c *Cache) joinLocked(ctx context.Context, host string) *call {
	if cl, ok := c.calls[host]; ok {
		cl.waiters++
		return cl
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cl := &call{host: host, waiters: 1, cancel: cancel, done: make(chan struct{})}
	c.calls[host] = cl
	go c.runLookup(ctx, cl)
	return cl
}

// runLookup runs the lookup and caches its answer, unless no caller waits for it any more.
func (c *Cache) runLookup(ctx context.Context, cl *call) {
	defer cl.cancel()
	began := time.Now()
	found, err := c.cfg.Lookup(ctx, cl.host)
	c.mu.Lock()
	if c.calls[cl.host] == cl {
		delete(c.calls, cl.host)
		old, _ := c.answers.Peek(cl.host)
		cl.answer = c.newAnswer(cl.host, began, found, err, old)
		if !errors.Is(err, ErrBusy) {
			c.answers.Add(cl.host, cl.answer)
		}
		c.durations.Add(cl.host, time.Since(began))
	}
	c.mu.Unlock()
	close(cl.done)
}

// wait returns the answer of cl, or the error of ctx if ctx ends first.
func (c *Cache) wait(ctx context.Context, cl *call) (answer, error) {
	select {
	case <-cl.done:
		return cl.answer, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.waiters--; cl.waiters == 0 && c.calls[cl.host] == cl {
		delete(c.calls, cl.host) // the next caller starts a new lookup
		cl.cancel()
	}
	return answer{}, ctx.Err()
}

const (
	// repeatsFor is the maximum time in which another lookup would only repeat an answer with a
	// TTL.
	repeatsFor = 10 * time.Second
	// retryStale is the time between lookups while they fail and addresses that have expired are
	// used (RFC 8767, section 5).
	retryStale = 30 * time.Second
)

// newAnswer converts the result of Lookup to a cache entry with its times of expiry.
func (c *Cache) newAnswer(
	host string, began time.Time, found Answer, err error, old answer,
) answer {
	now := time.Now()
	addrs := normalAddrs(found.Addrs)
	if err == nil && len(addrs) > 0 {
		a := answer{addrs: addrs, expires: now.Add(defaultTTL)}
		if ttl := found.TTL; ttl > 0 {
			a.expires = now.Add(min(max(ttl, minTTL), maxTTL))
			a.repeats = now.Add(min(ttl, repeatsFor))
		}
		a.stale = a.expires.Add(maxStale)
		return a
	}
	if errors.Is(err, ErrBusy) {
		if now.Before(old.stale) {
			return answer{addrs: old.addrs, err: err}
		}
		return answer{err: err}
	}
	e := asError(host, err)
	e.Began = began
	if errors.Is(e, ErrNotFound) {
		life := c.cfg.NegativeTTL
		if e.ttl >= 0 { // the lookup says how long
			life = max(min(e.ttl, life), failureTTL)
		}
		return answer{err: e, expires: now.Add(life)}
	}
	if len(old.addrs) > 0 && now.Before(old.stale) {
		return answer{
			addrs: old.addrs, err: e, expires: now.Add(retryStale), stale: old.stale,
		}
	}
	return answer{err: e, expires: now.Add(failureTTL)}
}
