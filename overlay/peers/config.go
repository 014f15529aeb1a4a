package peers

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/coords"
)

// A Saver remembers peers for the next start.
type Saver interface {
	// SavePeers replaces what was saved. It is never called concurrently.
	SavePeers([]peer.AddrInfo) error
}

// Config says what a Service works with. Start from DefaultConfig.
type Config struct {
	// Host and Key are this peer's. Required.
	Host host.Host
	Key  crypto.PrivKey
	// Topic is what beacons are sealed for, and Protocol the exchange's. Both
	// carry the network's identifier. Required.
	Topic    string
	Protocol protocol.ID
	// Estimator computes the own coordinate. From New on the Service alone uses
	// it. Required.
	Estimator *coords.Estimator
	// Load says how long a new URL would wait here and how much this peer can
	// take on. It is called every second or so and must be quick. Nil is 0, 1.
	Load func() (wait time.Duration, capacity float64)
	// Version goes into the beacon.
	Version string
	// Now is the clock that beacons are dated by and held against. Nil is
	// time.Now.
	Now func() time.Time
	// Saver is told the peers now and then and at the end. Nil saves nothing.
	Saver Saver
	// Logger gets what Run has to say. Nil discards.
	Logger *slog.Logger

	// Interval is how often a beacon is made at the least in a small network.
	// Several must fit into TTL, as not all arrive. Spacing is the time between
	// two beacons of anybody: among n known peers each makes one every n
	// Spacings, if that is longer. So what each hears does not grow with n.
	Interval, Spacing time.Duration
	// Gap is the least time between two beacons, however much changes; in a
	// large network it is a quarter of the time between those without change.
	Gap time.Duration
	// TTL, Skew and MaxPeers bound the directory; see DirectoryConfig.
	TTL, Skew time.Duration
	MaxPeers  int
	// Fast is the pause between two measurements while the coordinate's error
	// is above Settled, Slow after that, and when measuring quickly has not
	// helped. Both are spread by a quarter.
	Fast, Slow time.Duration
	Settled    float64
	// Sync is how often two peers tell each other of third ones, beyond the
	// first time after connecting.
	Sync time.Duration
	// MaxConns is up to how many known peers all are connected to. If there are
	// more, each connects to Partners of them, half near and half random. It
	// should be below the connection manager's low mark.
	MaxConns, Partners int
	// Timeout bounds the wait for one message of an exchange.
	Timeout time.Duration
	// SaveEvery is how often the Saver is told.
	SaveEvery time.Duration
}

// DefaultConfig returns a Config that lacks only what is required.
func DefaultConfig() Config {
	return Config{
		Interval:  15 * time.Second,
		Spacing:   600 * time.Millisecond,
		Gap:       2 * time.Second,
		TTL:       90 * time.Second,
		Skew:      5 * time.Minute,
		MaxPeers:  192,
		Fast:      750 * time.Millisecond,
		Slow:      20 * time.Second,
		Settled:   0.25,
		Sync:      30 * time.Second,
		MaxConns:  128,
		Partners:  32,
		Timeout:   5 * time.Second,
		SaveEvery: time.Minute,
	}
}

// Validate reports everything that is wrong, joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf("peers: "+format, args...))
		}
	}
	bad(c.Host == nil, "Host is missing")
	bad(c.Key == nil, "Key is missing")
	bad(c.Topic == "", "Topic is missing")
	bad(c.Protocol == "", "Protocol is missing")
	bad(c.Estimator == nil, "Estimator is missing")
	bad(len(c.Version) > maxVersion, "Version has %d bytes, want at most %d", len(c.Version), maxVersion)
	for name, d := range map[string]time.Duration{
		"Interval": c.Interval, "Spacing": c.Spacing, "Gap": c.Gap, "TTL": c.TTL, "Skew": c.Skew, "Fast": c.Fast, "Slow": c.Slow,
		"Sync": c.Sync, "Timeout": c.Timeout, "SaveEvery": c.SaveEvery,
	} {
		bad(d <= 0, "%s is %v, want more than 0", name, d)
	}
	bad(c.Interval >= c.TTL, "Interval is %v, want less than the TTL of %v", c.Interval, c.TTL)
	bad(c.Interval > maxEvery, "Interval is %v, want at most %v", c.Interval, maxEvery)
	bad(c.MaxPeers < 8 || c.MaxPeers > maxHave, "MaxPeers is %d, want 8 to %d", c.MaxPeers, maxHave)
	bad(c.MaxConns < 1, "MaxConns is %d, want at least 1", c.MaxConns)
	bad(c.Partners < 2, "Partners is %d, want at least 2", c.Partners)
	bad(!(c.Settled > 0 && c.Settled < 1), "Settled is %v, want in (0, 1)", c.Settled)
	return errors.Join(errs...)
}
