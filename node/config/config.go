package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
)

// Strategies are the names that the key strategy may have.
var Strategies = []string{
	"proxy", "random", "hash", "keep", "geo", "probe", "sequential", "himicra", "ipmicra", "ipmicra-proxy",
}

// NeedsRegistry says whether a strategy rests on the Internet registries' data.
func NeedsRegistry(strategy string) bool { return strings.HasPrefix(strategy, "ipmicra") }

// Config is what config.toml says about one peer. What all peers of a network
// must agree on is in the Profile.
type Config struct {
	// Listen holds the multiaddrs on which other peers reach this one.
	Listen []string `toml:"listen"`
	// Bootstrap holds multiaddrs, with /p2p/ID at their end, of peers to join
	// in addition to those of the profile.
	Bootstrap []string `toml:"bootstrap"`
	// MDNS makes peers on one local network find each other without being told.
	MDNS bool `toml:"mdns"`
	// API is HOST:PORT of the admin API; port 0 takes any free one.
	API string `toml:"api"`
	// Profile is the path of the network's profile, relative to the home; empty
	// means DefaultProfile.
	Profile string `toml:"profile"`
	// Strategy names how owners of subnets are chosen, one of Strategies.
	Strategy string `toml:"strategy"`
	// Adapt lets a subnet move on from this peer when another has become clearly
	// nearer, or this one slow, under strategies that measure.
	Adapt bool `toml:"adapt"`
	// Threshold is the probe time at which the strategies sequential, himicra,
	// ipmicra and ipmicra-proxy are content with a peer (Papapetrou 2003, 7.2); 0: never.
	Threshold Duration `toml:"threshold"`
	// GeoDB is the path of a data base of places in MaxMind's format, relative to
	// the home. The strategy geo needs it.
	GeoDB string `toml:"geo_db"`
	// Contact is a URL where owners of web sites learn who crawls and how to
	// reach them. It is sent in the User-Agent.
	Contact string `toml:"contact"`
	// Memory is what the peer should keep to, in bytes: from there on it collects
	// garbage ever more often. Files that are mapped come on top; 0 is no bound.
	Memory Size `toml:"memory"`
	// Drain makes a signal hand everything over before the peer stops, as "peerd
	// stop" does.
	Drain bool `toml:"drain"`
	// DrainTimeout bounds that.
	DrainTimeout Duration `toml:"drain_timeout"`
	// LogLevel is the least level that is logged.
	LogLevel slog.Level `toml:"log_level"`

	Crawl   Crawl   `toml:"crawl"`
	Archive Archive `toml:"archive"`
	Overlay Overlay `toml:"overlay"`
}

// Default returns the configuration of a peer that has no config.toml. Batch
// sizes are those of Malet, section 5.4.
func Default() Config {
	return Config{
		Listen: []string{
			"/ip4/0.0.0.0/tcp/4101", "/ip4/0.0.0.0/udp/4101/quic-v1",
			"/ip6/::/tcp/4101", "/ip6/::/udp/4101/quic-v1",
		},
		API:          "127.0.0.1:0",
		Strategy:     "proxy",
		Adapt:        true,
		Threshold:    Duration{50 * time.Millisecond},
		Memory:       192 << 20,
		DrainTimeout: Duration{2 * time.Minute},
		LogLevel:     slog.LevelInfo,
		Crawl: Crawl{
			MinDelay:     Duration{time.Second},
			FetchWorkers: 64,
			Timeout:      Duration{time.Minute},
			MinFree:      128 << 20,
			Shares:       Shares{Own: 0.1, Assigned: 0.8, Estimations: 0.1},
		},
		Archive: Archive{MaxFile: 1 << 30},
		Overlay: Overlay{
			BatchMaxURLs: 1000,
			BatchMaxAge:  Duration{5 * time.Second},
			NurseryURLs:  16,
			NurseryAge:   Duration{5 * time.Second},
			LeaseTTL:     Duration{12 * time.Hour},
			Settle:       Duration{1500 * time.Millisecond},
			Shadows:      1,
		},
	}
}

// Load reads config.toml of h over the defaults. A missing file gives the
// defaults; a wrong one an error that matches ErrInvalid and names the file,
// and the line where it can.
func (h Home) Load() (Config, error) {
	text, err := readFile(h.ConfigFile())
	if errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("read config: %w", err)
	}
	return parseConfig(h.ConfigFile(), text)
}

func parseConfig(name string, text []byte) (Config, error) {
	c := Default()
	if err := decode(name, text, &c); err != nil {
		return Config{}, err
	}
	c.normalise()
	if err := c.Validate(); err != nil {
		return Config{}, inFile(name, text, err)
	}
	return c, nil
}

// normalise brings equal settings into one form. A name that two keys of
// crawl.resolve spell differently gets the addresses of both.
func (c *Config) normalise() {
	for i, p := range c.Crawl.AllowNet {
		c.Crawl.AllowNet[i] = p.Masked()
	}
	lower := make(map[string][]netip.Addr, len(c.Crawl.Resolve))
	for _, host := range slices.Sorted(maps.Keys(c.Crawl.Resolve)) {
		name := strings.ToLower(host)
		lower[name] = append(lower[name], c.Crawl.Resolve[host]...)
	}
	if c.Crawl.Resolve != nil {
		c.Crawl.Resolve = lower
	}
}

// Validate returns all that is wrong with c, one line a fault; the error
// matches ErrInvalid.
func (c Config) Validate() error {
	var f faults
	if len(c.Listen) == 0 {
		f.addf("listen is empty, want at least one multiaddr")
	}
	for _, s := range c.Listen {
		if err := checkListen(s); err != nil {
			f.addf("listen: %q: %w", clip(s), err)
		}
	}
	checkPeers(&f, c.Bootstrap)
	if err := checkHostPort(c.API); err != nil {
		f.addf("api: %q: %w", clip(c.API), err)
	}
	if !slices.Contains(Strategies, c.Strategy) {
		f.addf("strategy is %q, want one of %s", clip(c.Strategy), strings.Join(Strategies, ", "))
	}
	f.lasting("threshold", c.Threshold, 0, time.Minute)
	if c.Strategy == "geo" && c.GeoDB == "" {
		f.addf(`strategy is "geo", which needs geo_db: set it to a data base of cities in MaxMind's format, such as GeoLite2-City.mmdb`)
	}
	if err := checkContact(c.Contact); err != nil {
		f.addf("contact: %q: %w", clip(c.Contact), err)
	}
	if c.Memory != 0 {
		between(&f, "memory", int64(c.Memory), 64<<20, 1<<50)
	}
	f.lasting("drain_timeout", c.DrainTimeout, time.Second, 24*time.Hour)
	c.Crawl.check(&f)
	c.Archive.check(&f)
	c.Overlay.check(&f)
	return f.err()
}

// BootstrapPeers returns the peers to join: those of c and those of p, each
// once with all its addresses. Its errors match ErrInvalid.
func BootstrapPeers(c Config, p Profile) ([]peer.AddrInfo, error) {
	var addrs []ma.Multiaddr
	for _, s := range slices.Concat(c.Bootstrap, p.Bootstrap) {
		m, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, asInvalid(fmt.Errorf("bootstrap: %q: %w", clip(s), err))
		}
		if !slices.ContainsFunc(addrs, m.Equal) {
			addrs = append(addrs, m)
		}
	}
	infos, err := peer.AddrInfosFromP2pAddrs(addrs...)
	if err != nil {
		return nil, asInvalid(fmt.Errorf("bootstrap: %w", err))
	}
	slices.SortFunc(infos, func(a, b peer.AddrInfo) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return infos, nil
}

// checkListen returns why a peer cannot listen on s: it wants an IP address
// with TCP or QUIC behind it.
func checkListen(s string) error {
	m, err := ma.NewMultiaddr(s)
	if err != nil {
		return errors.New("not a multiaddr, want one such as /ip4/0.0.0.0/tcp/4101")
	}
	var names []string
	for _, p := range m.Protocols() {
		names = append(names, p.Name)
	}
	switch strings.Join(names, "/") {
	case "ip4/tcp", "ip6/tcp", "ip4/udp/quic-v1", "ip6/udp/quic-v1":
		return nil
	}
	return errors.New("want /ip4 or /ip6, then /tcp/PORT or /udp/PORT/quic-v1")
}

// checkPeers records every multiaddr that does not say whom to join.
func checkPeers(f *faults, addrs []string) {
	for _, s := range addrs {
		info, err := peer.AddrInfoFromString(s)
		switch {
		case err != nil:
			f.addf("bootstrap: %q: not a multiaddr that ends in /p2p/PEER-ID", clip(s))
		case len(info.Addrs) == 0:
			f.addf("bootstrap: %q: it names no address", clip(s))
		}
	}
}

// checkContact wants a URL that can stand inside a comment of a User-Agent.
func checkContact(s string) error {
	if s == "" {
		return nil
	}
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '(' || r == ')' || r == '\\' }) {
		return errors.New("only printable ASCII without blanks and parentheses can be sent")
	}
	_, err := webURL(s)
	return err
}

// LimitMemory makes this process keep to c.Memory. It is for programs that run
// one peer: the bound is the process's.
func (c Config) LimitMemory() {
	if c.Memory > 0 {
		debug.SetMemoryLimit(int64(c.Memory))
	}
}
