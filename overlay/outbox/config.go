package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/backoff"
	"peerd/store"
)

// Config configures a Forwarder.
type Config struct {
	DB       *store.DB
	Host     host.Host
	Protocol protocol.ID
	Resolver Resolver
	Sink     Sink
	// Check returns an error for URLs that no peer of this network sends.
	Check func(store.URL) error
	// Safe is called before a batch is acknowledged, with the subnets of the URLs that were
	// stored and synced. It returns the subnets that must not be acknowledged yet because no
	// replica has their URLs; the sender sends those again. If Safe is set, URLs that are
	// pending here are not acknowledged either. If it is nil, a URL is safe once it is on this
	// peer's disk.
	Safe func(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix)
	// A batch is sent when it has MaxURLs URLs (at most 4,096 are used) or its oldest URL is
	// MaxAge old (Malet 2009: 1,000 URLs, 5 s).
	MaxURLs int
	MaxAge  time.Duration
	// An unowned subnet is claimed when UnclaimedURLs URLs are pending for it or the oldest of
	// them is UnclaimedAge old.
	UnclaimedURLs int
	UnclaimedAge  time.Duration
	// Retry is the wait after a failure. It doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	// NamePatience is how long the lookups of a host's name may fail before its URLs are given
	// up. The waits between lookups double, from five times Retry to MaxNameRetry. Zero means
	// 72 h, and 1 h.
	NamePatience, MaxNameRetry time.Duration
	// NotFoundSpan is the minimum time between the first and the last of three answers that there
	// is no such host before its URLs are given up. Zero means 6 h.
	NotFoundSpan time.Duration
	// Online reports whether this peer's network is up. While it is down, nothing is resolved,
	// claimed or sent, and no failure counts. The caller calls RetryNow when it is up again. It
	// must be fast, and must not call the Forwarder. Nil: it always is.
	Online func() bool
	// RefreshRate is how many times a second, over all owners that do not answer, the owner of
	// a subnet is read again. Zero means 20.
	RefreshRate int
	// MaxPending is the number of pending URLs above which the Forwarder is over its limit: it
	// then claims all unowned subnets, those with the oldest URLs first. Zero means no limit.
	MaxPending int64
	Logger     *slog.Logger
}

// Validate returns all errors of c, joined.
func (c Config) Validate() error {
	var errs []error
	for _, m := range []struct {
		name  string
		there bool
	}{
		{"DB", c.DB != nil}, {"Host", c.Host != nil}, {"Protocol", c.Protocol != ""},
		{"Resolver", c.Resolver != nil}, {"Sink", c.Sink != nil}, {"Check", c.Check != nil},
	} {
		if !m.there {
			errs = append(errs, fmt.Errorf("outbox: %s is missing", m.name))
		}
	}
	for _, n := range []struct {
		name  string
		value int
		least int
	}{
		{"MaxURLs", c.MaxURLs, 1}, {"UnclaimedURLs", c.UnclaimedURLs, 1},
		{"RefreshRate", c.RefreshRate, 0},
	} {
		if n.value < n.least {
			errs = append(errs,
				fmt.Errorf("outbox: %s is %d, want at least %d", n.name, n.value, n.least))
		}
	}
	if c.MaxPending < 0 {
		errs = append(errs, fmt.Errorf("outbox: MaxPending is %d, want 0 or more", c.MaxPending))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"MaxAge", c.MaxAge, 0}, {"UnclaimedAge", c.UnclaimedAge, 0},
		{"Retry", c.Retry, time.Millisecond}, {"MaxRetry", c.MaxRetry, c.Retry},
		{"NamePatience", c.NamePatience, 0}, {"MaxNameRetry", c.MaxNameRetry, 0},
		{"NotFoundSpan", c.NotFoundSpan, 0},
	} {
		if d.value < d.least {
			errs = append(errs,
				fmt.Errorf("outbox: %s is %v, want at least %v", d.name, d.value, d.least))
		}
	}
	return errors.Join(errs...)
}

// batchSize returns the number of URLs in a full batch.
func (c Config) batchSize() int { return min(c.MaxURLs, maxBatchURLs) }

// backoff returns the wait after the given number of earlier failures.
func (c Config) backoff(fails int) time.Duration {
	return backoff.Double(c.Retry, c.MaxRetry, fails)
}

// nameBackoff returns the wait after the given number of earlier failed lookups.
func (c Config) nameBackoff(misses int) time.Duration {
	return backoff.Double(5*c.Retry, c.MaxNameRetry, misses)
}

// online reports whether this peer's network is up.
func (c Config) online() bool { return c.Online == nil || c.Online() }
