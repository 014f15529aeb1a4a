package outbox

import (
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/backoff"
	"peerd/internal/faults"
	"peerd/store"
)

// Config configures a Forwarder.
type Config struct {
	DB       *store.DB
	Host     host.Host
	Protocol protocol.ID
	Resolver Resolver
	Node     Node
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
	f := faults.Of("outbox")
	f.If(c.DB == nil, "DB is missing")
	f.If(c.Host == nil, "Host is missing")
	f.If(c.Protocol == "", "Protocol is missing")
	f.If(c.Resolver == nil, "Resolver is missing")
	f.If(c.Node == nil, "Node is missing")
	f.If(c.MaxURLs < 1, "MaxURLs is %d, want at least 1", c.MaxURLs)
	f.If(c.UnclaimedURLs < 1, "UnclaimedURLs is %d, want at least 1", c.UnclaimedURLs)
	f.If(c.RefreshRate < 0, "RefreshRate is %d, want 0 or more", c.RefreshRate)
	f.If(c.MaxPending < 0, "MaxPending is %d, want 0 or more", c.MaxPending)
	f.If(c.Retry < time.Millisecond, "Retry is %v, want at least 1ms", c.Retry)
	f.If(c.MaxRetry < c.Retry, "MaxRetry is %v, want at least Retry", c.MaxRetry)
	for name, d := range map[string]time.Duration{
		"MaxAge": c.MaxAge, "UnclaimedAge": c.UnclaimedAge, "NamePatience": c.NamePatience,
		"MaxNameRetry": c.MaxNameRetry, "NotFoundSpan": c.NotFoundSpan,
	} {
		f.If(d < 0, "%s is %v, want 0 or more", name, d)
	}
	return f.Err()
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
