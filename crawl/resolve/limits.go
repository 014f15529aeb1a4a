package resolve

import (
	"context"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/time/rate"

	"peerd/internal/backoff"
	"peerd/internal/lru"
)

const (
	// domainRate is the number of queries per second about the names of one registered domain:
	// the same few name servers answer them.
	domainRate = 100
	// maxDomains bounds the domains that are counted.
	maxDomains = 4096
	// maxDomainWait is the longest wait for the limit of a domain. The caller tries again later,
	// so that lookups of other domains need not wait.
	maxDomainWait = 2 * time.Second
)

// bucket is a token bucket that holds the tokens of one second, but at most 100.
type bucket struct{ *rate.Limiter }

func newBucket(perSecond int) bucket {
	return bucket{rate.NewLimiter(rate.Limit(perSecond), min(perSecond, 100))}
}

// wait waits for a token, whatever the deadline of ctx is.
func (b bucket) wait(ctx context.Context) error {
	return backoff.Sleep(ctx, b.Reserve().Delay())
}

// limits are the token buckets of registered domains. Methods are safe for concurrent use.
type limits struct {
	mu      sync.Mutex
	domains *lru.Simple[string, bucket]
}

func newLimits() *limits {
	return &limits{domains: lru.NewSimple[string, bucket](maxDomains, nil)}
}

// wait waits until a query about name may be sent. It returns ErrBusy at once if that would take
// too long.
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
	r := b.Reserve()
	if r.Delay() > maxDomainWait {
		r.Cancel()
		return ErrBusy
	}
	return backoff.Sleep(ctx, r.Delay())
}
