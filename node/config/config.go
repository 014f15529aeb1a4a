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
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/crawl/localsite"
	"peerd/crawl/resolve"
	"peerd/internal/order"
	"peerd/node/strategy"
)

// Strategies are the valid values of the key strategy, the default first.
var Strategies = strategy.Names()

// maxLocalSites is at most the number of sites of which a batch may call pages changed.
const maxLocalSites = 16

// maxAnnounced is how many addresses a beacon has at most.
const maxAnnounced = 4

// NeedsRegistry reports whether a strategy needs the data of the Internet registries.
func NeedsRegistry(name string) bool { return strings.HasPrefix(name, "ipmicra") }

// Config holds the settings of one peer from config.toml. The settings that all peers of a
// network share are in the Profile.
type Config struct {
	// Listen holds the multiaddrs on which other peers reach this one.
	Listen []string `toml:"listen"`
	// Announce holds the multiaddrs that other peers are told instead of those in Listen.
	Announce []string `toml:"announce"`
	// Bootstrap holds multiaddrs, ending in /p2p/ID, of peers to join in addition to those of
	// the profile.
	Bootstrap []string `toml:"bootstrap"`
	// NAT finds out whether other peers can connect to this one, asks the router to forward the
	// ports, and has other members relay otherwise.
	NAT bool `toml:"nat"`
	// Relay relays for members that cannot be connected to.
	Relay bool `toml:"relay"`
	// MDNS finds peers on the local network by multicast DNS.
	MDNS bool `toml:"mdns"`
	// API is HOST:PORT of the admin API; port 0 is any free port.
	API string `toml:"api"`
	// Pprof serves profiles of the process at the admin API.
	Pprof bool `toml:"pprof"`
	// Libp2pMetrics adds libp2p's own metrics to those of the admin API.
	Libp2pMetrics bool `toml:"libp2p_metrics"`
	// Profile is the path of the network's profile, relative to the home; empty: profile.toml in
	// the home, or else DefaultProfile.
	Profile string `toml:"profile"`
	// Strategy is how owners of subnets are chosen, one of Strategies.
	Strategy string `toml:"strategy"`
	// Adapt moves a subnet to another peer if that one has become clearly nearer, or this one
	// slow, with strategies that measure.
	Adapt bool `toml:"adapt"`
	// Threshold is the connection time within which the strategies sequential, himicra, ipmicra
	// and ipmicra-proxy accept the first peer (Papapetrou 2003, 7.2); 0: they measure all.
	Threshold Duration `toml:"threshold"`
	// GeoDB is the path of a geolocation database in MaxMind's format, relative to the home. The
	// strategy geo needs it.
	GeoDB string `toml:"geo_db"`
	// Contact is a URL where owners of web sites find out who crawls and how to contact them. It
	// is part of the User-Agent.
	Contact string `toml:"contact"`
	// Memory is the soft limit of the process in bytes: near it, garbage is collected more
	// often. It does not include memory-mapped files; 0: no limit.
	Memory Size `toml:"memory"`
	// Sandbox restricts the files of the process to the home and what the settings name.
	Sandbox bool `toml:"sandbox"`
	// Drain hands everything over before a stop by a signal, as "peerd stop" does.
	Drain bool `toml:"drain"`
	// DrainTimeout bounds the handover after a signal.
	DrainTimeout Duration `toml:"drain_timeout"`
	// LogLevel is the minimum level of log messages.
	LogLevel slog.Level `toml:"log_level"`
	// LogFormat is the form of log messages, "text" or "json". LogFile is the path of the file to
	// which they are written, relative to the home; "": standard error.
	LogFormat string `toml:"log_format"`
	LogFile   string `toml:"log_file"`

	// LocalSites maps the URLs of web sites, or of directories there, to their document roots on
	// this machine, relative to the home.
	LocalSites map[string]string `toml:"local_sites"`
	// ReportLocalSites reports pages of LocalSites from their files to the owners of their subnets,
	// which request only a sample.
	ReportLocalSites bool `toml:"report_local_sites"`

	Crawl   Crawl   `toml:"crawl"`
	Archive Archive `toml:"archive"`
	Search  Search  `toml:"search"`
	Replay  Replay  `toml:"replay"`
	Page    Page    `toml:"page"`
	Collect Collect `toml:"collect"`
	Plugins Plugins `toml:"plugins"`
	Traffic Traffic `toml:"traffic"`
	Traces  Traces  `toml:"traces"`
	Events  Events  `toml:"events"`
	Overlay Overlay `toml:"overlay"`
}

// Default returns the settings of a peer without config.toml. The batch sizes are those of
// Malet, section 5.4.
func Default() Config {
	return Config{
		Listen: []string{
			"/ip4/0.0.0.0/tcp/4101", "/ip4/0.0.0.0/udp/4101/quic-v1",
			"/ip6/::/tcp/4101", "/ip6/::/udp/4101/quic-v1",
		},
		NAT:          true,
		Relay:        true,
		API:          "127.0.0.1:0",
		Strategy:     "proxy",
		Adapt:        true,
		Threshold:    Duration{50 * time.Millisecond},
		Memory:       192 << 20,
		Sandbox:      true,
		DrainTimeout: Duration{2 * time.Minute},
		LogLevel:     slog.LevelInfo,
		LogFormat:    "text",
		Crawl: Crawl{
			MinDelay:        Duration{time.Second},
			AddressRequests: 8,
			NetworkRequests: 4,
			NetworkRate:     10,
			FetchWorkers:    64,
			DNSRate:         resolve.DefaultRate,
			Timeout:         Duration{time.Minute},
			Patience:        Duration{72 * time.Hour},
			CheckReports:    0.03,
			MinFree:         128 << 20,
			Shares:          Shares{Own: 0.1, Assigned: 0.8, Estimations: 0.1},
		},
		Archive: Archive{MaxFile: 1 << 30},
		Search:  Search{Mirrors: 1, MirrorUpload: 4 << 20, MirrorSpace: 10 << 30},
		Collect: Collect{Upload: 1 << 20},
		Events:  Events{MaxSize: 1 << 30},
		Overlay: Overlay{
			BatchMaxURLs:  1000,
			BatchMaxAge:   Duration{5 * time.Second},
			UnclaimedURLs: 16,
			UnclaimedAge:  Duration{5 * time.Second},
			LeaseTTL:      Duration{12 * time.Hour},
			Settle:        Duration{1500 * time.Millisecond},
			Replicas:      1,
		},
	}
}

// Load reads config.toml of h over the defaults. If the file is missing, it returns the
// defaults. Errors about the content match ErrInvalid and name the file and, if possible, the
// line.
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

// normalise converts equivalent settings to one form. If two keys of crawl.resolve are the same
// name, their addresses are joined.
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

// Validate returns all faults of c, one a line. The error matches ErrInvalid.
func (c Config) Validate() error {
	var f faults
	if len(c.Listen) == 0 {
		f.addf("listen is empty, want at least one multiaddr")
	}
	for _, s := range c.Listen {
		f.value("listen", s, checkListen(s))
	}
	for _, s := range c.Announce {
		f.value("announce", s, checkAnnounce(s))
	}
	between(&f, "number of addresses in announce", len(c.Announce), 0, maxAnnounced)
	checkPeers(&f, c.Bootstrap)
	f.value("api", c.API, checkHostPort(c.API))
	if !slices.Contains(Strategies, c.Strategy) {
		f.addf("strategy is %q, want one of %s", clip(c.Strategy), strings.Join(Strategies, ", "))
	}
	between(&f, "threshold", c.Threshold.Duration, 0, time.Minute)
	if c.Strategy == "geo" && c.GeoDB == "" {
		f.addf(
			`strategy is "geo", which needs geo_db: set it to a database of cities ` +
				`in MaxMind's format, such as GeoLite2-City.mmdb`)
	}
	f.value("contact", c.Contact, checkContact(c.Contact))
	if c.Memory != 0 {
		between(&f, "memory", int64(c.Memory), 64<<20, 1<<50)
	}
	between(&f, "drain_timeout", c.DrainTimeout.Duration, time.Second, 24*time.Hour)
	if c.LogFormat != "text" && c.LogFormat != "json" {
		f.addf("log_format is %q, want text or json", clip(c.LogFormat))
	}
	checkLocalSites(&f, c.LocalSites)
	c.Crawl.check(&f)
	c.Archive.check(&f)
	c.Search.check(&f, c.Archive.Enabled)
	c.Replay.check(&f, c.Archive.Enabled)
	c.Page.check(&f)
	c.Collect.check(&f, c.Archive.Enabled)
	c.Plugins.check(&f)
	c.Traffic.check(&f, c.Listen)
	c.Traces.check(&f)
	between(&f, "events.max_size", int64(c.Events.MaxSize), 0, 1<<50)
	c.Overlay.check(&f)
	return f.err()
}

func checkLocalSites(f *faults, sites map[string]string) {
	between(f, "number of local_sites", len(sites), 0, maxLocalSites)
	for site, root := range sites {
		f.value("local_sites", site, localsite.CheckURL(site))
		if root == "" {
			f.addf("local_sites: %q has no directory", clip(site))
		}
	}
}

// BootstrapPeers returns the peers of c and p to join, each once with all its addresses. Its
// errors match ErrInvalid.
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
	order.SortFunc(infos, func(a, b peer.AddrInfo) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return infos, nil
}

// checkListen returns why a peer cannot listen on s, which must be an IP address with TCP or
// QUIC.
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

// checkAnnounce returns why no other peer could connect to s.
func checkAnnounce(s string) error {
	if err := checkListen(s); err != nil {
		return err
	}
	m := ma.StringCast(s) // valid
	if manet.IsIPUnspecified(m) || strings.Contains(m.String()+"/", "/0/") {
		return errors.New("other peers cannot connect to it, want the address and the port that " +
			"they reach, such as /ip4/198.51.100.7/tcp/4101")
	}
	return nil
}

// checkPeers records every multiaddr without a peer ID or without an address.
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

// checkContact returns why s cannot be part of a comment in the User-Agent.
func checkContact(s string) error {
	if s == "" {
		return nil
	}
	if strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '(' || r == ')' || r == '\\'
	}) {
		return errors.New("only printable ASCII without blanks and parentheses can be sent")
	}
	_, err := webURL(s)
	return err
}

// usualOpenFiles is the limit on open files if it is unknown.
const usualOpenFiles = 1024

// LimitMemory sets the soft memory limit of this process to c.Memory. It is for programs that
// run one peer.
func (c Config) LimitMemory() {
	if c.Memory > 0 {
		debug.SetMemoryLimit(int64(c.Memory))
	}
}
