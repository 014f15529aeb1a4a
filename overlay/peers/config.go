package peers

import (
	"context"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/coords"
	"peerd/internal/clock"
	"peerd/internal/faults"
)

// A Saver stores peers for the next start.
type Saver interface {
	// SavePeers replaces what was saved. Calls are not concurrent.
	SavePeers([]peer.AddrInfo) error
}

// An Answerer answers heartbeats. witness.Service implements it.
type Answerer interface {
	// AnswerHeartbeat returns the answer to the payload of a heartbeat of another peer. After an
	// error the heartbeat is not answered. It may be called concurrently.
	AnswerHeartbeat(ctx context.Context, from peer.ID, payload []byte) ([]byte, error)
}

// A Worker tells how busy this peer is.
type Worker interface {
	// Load returns the estimated wait of a new URL and the capacity of this peer. It is called
	// about once a second and must not block.
	Load() (wait time.Duration, capacity float64)
}

// Config configures a Service. Start from DefaultConfig.
type Config struct {
	// Host and Key are those of this peer. Required.
	Host host.Host
	Key  crypto.PrivKey
	// Topic is what beacons are signed for. Protocol is the protocol ID of the streams. Both
	// contain the network's identifier. Required.
	Topic    string
	Protocol protocol.ID
	// HeartbeatProtocol is the protocol ID of streams for heartbeats, and contains the network's
	// identifier as well. Required.
	HeartbeatProtocol protocol.ID
	// Answerer answers heartbeats with a payload. Nil: the answer has none.
	Answerer Answerer
	// Estimator computes the coordinate of this peer. After New only the Service may use it.
	// Required.
	Estimator *coords.Estimator
	// Worker tells how busy this peer is. Nil means a load of 0 and 1.
	Worker Worker
	// Version is announced in beacons.
	Version string
	// Clock dates beacons and checks their dates.
	Clock clock.Clock
	// Saver is given the known peers when they have changed, every SaveEvery at most, and when Run
	// returns. Nil disables it.
	Saver Saver
	// Logger receives the log of Run. Nil disables it.
	Logger *slog.Logger

	// Interval is the time between two beacons in a small network. It must be several times
	// smaller than TTL because some beacons are lost. Spacing bounds the rate of all beacons
	// together: with n known peers each makes one every n*Spacing if that is longer than
	// Interval, so the traffic per peer does not grow with n.
	Interval, Spacing time.Duration
	// Gap is the minimum time between two beacons, however much changes. In a large network it
	// is a quarter of the interval instead.
	Gap time.Duration
	// TTL, Skew and MaxPeers bound the directory; see directoryConfig.
	TTL, Skew time.Duration
	MaxPeers  int
	// FastInterval is the time between two measurements while the error of the coordinate is
	// above SettledError, for a limited number of measurements. SlowInterval is the time
	// between two otherwise. Both vary by a quarter.
	FastInterval, SlowInterval time.Duration
	SettledError               float64
	// SyncInterval is how often two connected peers exchange digests, after a first time when
	// they connect.
	SyncInterval time.Duration
	// Up to MaxConns known peers, each peer is connected to all others. With more, each
	// connects to Partners of them, half near and half random. MaxConns should be below the low
	// mark of the connection manager.
	MaxConns, Partners int
	// Timeout bounds the wait for one message of an exchange.
	Timeout time.Duration
	// SaveEvery is the least time between two calls of Saver.
	SaveEvery time.Duration
}

// DefaultConfig returns a Config in which only the required fields are missing.
func DefaultConfig() Config {
	return Config{
		Interval:     15 * time.Second,
		Spacing:      900 * time.Millisecond,
		Gap:          2 * time.Second,
		TTL:          90 * time.Second,
		Skew:         5 * time.Minute,
		MaxPeers:     192,
		FastInterval: 750 * time.Millisecond,
		SlowInterval: 20 * time.Second,
		SettledError: 0.25,
		SyncInterval: 30 * time.Second,
		MaxConns:     128,
		Partners:     32,
		Timeout:      5 * time.Second,
		SaveEvery:    time.Minute,
	}
}

// Validate returns all errors of c, joined.
func (c Config) Validate() error {
	f := faults.Of("peers")
	f.If(c.Host == nil, "Host is missing")
	f.If(c.Key == nil, "Key is missing")
	f.If(c.Topic == "", "Topic is missing")
	f.If(c.Protocol == "", "Protocol is missing")
	f.If(c.HeartbeatProtocol == "", "HeartbeatProtocol is missing")
	f.If(c.Estimator == nil, "Estimator is missing")
	f.If(len(c.Version) > maxVersion, "Version has %d bytes, want at most %d", len(c.Version),
		maxVersion)
	for name, d := range map[string]time.Duration{
		"Interval": c.Interval, "Spacing": c.Spacing, "Gap": c.Gap, "TTL": c.TTL, "Skew": c.Skew,
		"FastInterval": c.FastInterval, "SlowInterval": c.SlowInterval,
		"SyncInterval": c.SyncInterval, "Timeout": c.Timeout, "SaveEvery": c.SaveEvery,
	} {
		f.If(d <= 0, "%s is %v, want more than 0", name, d)
	}
	f.If(c.Interval >= c.TTL, "Interval is %v, want less than the TTL of %v", c.Interval, c.TTL)
	f.If(c.Interval > maxInterval, "Interval is %v, want at most %v", c.Interval, maxInterval)
	f.If(c.MaxPeers < 8 || c.MaxPeers > maxDigest, "MaxPeers is %d, want 8 to %d", c.MaxPeers,
		maxDigest)
	f.If(c.MaxConns < 1, "MaxConns is %d, want at least 1", c.MaxConns)
	f.If(c.Partners < 2, "Partners is %d, want at least 2", c.Partners)
	f.If(!(c.SettledError > 0 && c.SettledError < 1), "SettledError is %v, want in (0, 1)",
		c.SettledError)
	return f.Err()
}
