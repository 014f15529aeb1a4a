package resolve

import (
	"cmp"
	"context"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"

	"peerd/internal/lru"
)

const (
	// domainRate is the number of queries per second about the names of one registered domain:
	// the same few name servers answer them.
	domainRate = 100
	// maxDomains bounds the domains that are counted.
	maxDomains = 4096
	// maxWait is the longest wait for a limit. The caller tries again later, so that lookups of
	// other domains need not wait, and there is time left for the answer.
	maxWait = 2 * time.Second
)

// perLookup is the number of queries of a lookup: one for each type of address.
const perLookup = 2

// newBucket returns a token bucket that holds the tokens of one second: those of a lookup at least,
// and 100 at most.
func newBucket(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), min(max(perSecond, perLookup), 100))
}

// limits are the token buckets of registered domains. Methods are safe for concurrent use.
type limits struct {
	mu      sync.Mutex
	domains *lru.Simple[string, *rate.Limiter]
}

func newLimits() *limits {
	return &limits{domains: lru.NewSimple[string, *rate.Limiter](maxDomains, nil)}
}

// wait takes the tokens of a lookup of name, as take does.
func (l *limits) wait(ctx context.Context, name string) error {
	domain, err := publicsuffix.EffectiveTLDPlusOne(name)
	if err != nil { // a public suffix itself
		domain = name
	}
	l.mu.Lock()
	b, ok := l.domains.Get(domain)
	if !ok {
		b = newBucket(domainRate)
		l.domains.Add(domain, b)
	}
	l.mu.Unlock()
	return take(ctx, b)
}

// take takes the tokens of a lookup, for which it waits for maxWait at most. It returns ErrBusy at
// once, and takes none, if that would take longer: lookups that give up would leave no tokens for
// others.
func take(ctx context.Context, b *rate.Limiter) error {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if err := b.WaitN(waiting, perLookup); err != nil {
		return cmp.Or(ctx.Err(), ErrBusy)
	}
	return nil
}
