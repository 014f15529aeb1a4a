package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/store"
)

// DefaultNameTries is Config.NameTries when that is zero: with a Retry of one
// second a name is given up after a minute and a quarter.
const DefaultNameTries = 5

// DefaultRefreshRate is Config.RefreshRate when that is zero.
const DefaultRefreshRate = 20

// Config says what a Forwarder works with.
type Config struct {
	DB       *store.DB
	Host     host.Host
	Protocol protocol.ID
	Resolver Resolver
	Sink     Sink
	// Check rejects URLs that no peer of this network would send.
	Check func(store.URL) error
	// Safe is called before a batch is acknowledged, with the subnets whose URLs
	// were taken in and are on this disk. It returns those of them that must not
	// be acknowledged yet, because nobody else has a copy; they are to come again.
	// Then no URL is acknowledged either that is still put aside here. Nil: a URL
	// on this disk is safe.
	Safe func(ctx context.Context, subnets []netip.Prefix) (unsafe []netip.Prefix)
	// MaxURLs and MaxAge: a batch leaves when it has so many URLs (4,096 at
	// most), or its oldest one is so old (Malet 2009: 1,000 URLs, 5 s).
	MaxURLs int
	MaxAge  time.Duration
	// NurseryURLs and NurseryAge: an unowned subnet is claimed when so many
	// URLs wait for it, or the oldest so long.
	NurseryURLs int
	NurseryAge  time.Duration
	// Retry is the wait after a failure; it doubles up to MaxRetry.
	Retry, MaxRetry time.Duration
	// NameTries is the number of look-ups of a host's name, failed in a row
	// (ErrUnresolved), after which its URLs are dropped; the waits between
	// them double from five times Retry on. Zero means DefaultNameTries.
	NameTries int
	// RefreshRate bounds how often a second it is read anew, over all owners that
	// do not answer, who owns a subnet of theirs. Zero means DefaultRefreshRate.
	RefreshRate int
	// MaxWaiting is the number of URLs from which on the Forwarder is Crowded:
	// then all nurseries are claimed, the oldest first. Zero means no bound.
	MaxWaiting int64
	Logger     *slog.Logger
}

// Validate reports everything that is wrong with c, in one error.
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
			errs = append(errs, fmt.Errorf("forward: %s is missing", m.name))
		}
	}
	for _, n := range []struct {
		name  string
		value int
		least int
	}{{"MaxURLs", c.MaxURLs, 1}, {"NurseryURLs", c.NurseryURLs, 1}, {"NameTries", c.NameTries, 0}, {"RefreshRate", c.RefreshRate, 0}} {
		if n.value < n.least {
			errs = append(errs, fmt.Errorf("forward: %s is %d, want at least %d", n.name, n.value, n.least))
		}
	}
	if c.MaxWaiting < 0 {
		errs = append(errs, fmt.Errorf("forward: MaxWaiting is %d, want 0 or more", c.MaxWaiting))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"MaxAge", c.MaxAge, 0}, {"NurseryAge", c.NurseryAge, 0},
		{"Retry", c.Retry, time.Millisecond}, {"MaxRetry", c.MaxRetry, c.Retry},
	} {
		if d.value < d.least {
			errs = append(errs, fmt.Errorf("forward: %s is %v, want at least %v", d.name, d.value, d.least))
		}
	}
	return errors.Join(errs...)
}

// batchSize is the number of URLs in a full batch.
func (c Config) batchSize() int { return min(c.MaxURLs, maxBatchURLs) }

// wait is how long to rest after so many failures before.
func (c Config) wait(fails int) time.Duration {
	return double(c.Retry, fails, c.MaxRetry)
}

// nameWait is how long to rest after so many failed look-ups before.
func (c Config) nameWait(misses int) time.Duration {
	return double(5*c.Retry, misses, time.Hour)
}

// double returns d doubled n times, at most most.
func double(d time.Duration, n int, most time.Duration) time.Duration {
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}
