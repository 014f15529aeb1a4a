package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const onePeer = "/ip4/192.0.2.7/tcp/4101/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX"

func TestDefaultIsValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
}

// The template must agree with the defaults in the code, as written and with every setting
// uncommented.
func TestTemplateHoldsTheDefaults(t *testing.T) {
	uncommented := make([]string, 0, 100)
	for line := range strings.SplitSeq(template, "\n") {
		if len(line) > 1 && line[0] == '#' && line[1] != ' ' {
			line = line[1:]
		}
		uncommented = append(uncommented, line)
	}
	for name, text := range map[string]string{"as written": template,
		"uncommented": strings.Join(uncommented, "\n")} {
		got, err := parseConfig("config.toml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := Default()
		for _, c := range []*Config{&got, &want} { // an empty list is as good as none
			c.Bootstrap, c.Crawl.AllowNet, c.Crawl.Resolve = nil, nil, nil
			c.Crawl.CAFiles, c.Archive.MaxBody = nil, nil
			c.Crawl.Resolver, c.Announce, c.LocalSites = nil, nil, nil
			c.Collect.Hosts, c.Collect.Topics, c.Plugins.Publishers = nil, nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
		}
	}
	shown := map[string]bool{}
	for _, s := range keyPositions([]byte(strings.Join(uncommented, "\n"))) {
		shown[s.key] = true
	}
	for _, key := range keys(reflect.TypeFor[Config](), "") {
		if !shown[key] {
			t.Errorf("the template lacks %s", key)
		}
	}
}

// keys returns the keys of all settings of a type, with dots.
func keys(t reflect.Type, in string) (all []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := strings.TrimPrefix(in+"."+f.Tag.Get("toml"), ".")
		all = append(all, name)
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Duration]() {
			all = append(all, keys(f.Type, name)...)
		}
	}
	return all
}

func TestParseConfig(t *testing.T) {
	c, err := parseConfig("config.toml", []byte(`
listen = ["/ip4/127.0.0.1/tcp/0"]
bootstrap = ["`+onePeer+`"]
contact = "https://example.org/bot"
log_level = "debug"
[crawl]
min_delay = "250ms"
allow_net = ["10.1.2.3/8"]
resolve = { "Docs.Example" = ["192.0.2.1", "2001:db8::1"] }
[overlay]
settle = "0s"
`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Crawl.MinDelay.Duration != 250*time.Millisecond || c.Overlay.Settle.Duration != 0 ||
		c.Overlay.UnclaimedURLs != 16 {
		t.Errorf("parseConfig() = %+v", c)
	}
	if want := netip.MustParsePrefix("10.0.0.0/8"); c.Crawl.AllowNet[0] != want {
		t.Errorf("allow_net = %v, want %v", c.Crawl.AllowNet[0], want)
	}
	if got := c.Crawl.Resolve["docs.example"]; len(got) != 2 {
		t.Errorf("resolve = %v, want two addresses of docs.example", c.Crawl.Resolve)
	}
	infos, err := BootstrapPeers(c,
		Profile{Bootstrap: []string{onePeer, strings.Replace(onePeer, "tcp/4101",
			"udp/4101/quic-v1", 1)}})
	if err != nil || len(infos) != 1 || len(infos[0].Addrs) != 2 {
		t.Errorf("BootstrapPeers: %v, %v; want one peer with two addresses", infos, err)
	}
}

func TestParseConfigRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"unknown key", "a = 1\n\n[crawl]\nmindelay = '1s'", `config.toml:1:1: unknown key "a"` +
			"\n" + `config.toml:4:1: unknown key "crawl.mindelay"`},
		{"syntax", "api = ", `config.toml:1:6: expected value`},
		{"integer for string", "api = 5", `config.toml:1:7: api: got integer, want a string`},
		{"string for list", "listen = '/ip4/127.0.0.1/tcp/1'",
			`config.toml:1:10: listen: got string, want a list, such as ["a", "b"]`},
		{"string for number", "[overlay]\nunclaimed_urls = 'x'",
			`config.toml:2:18: overlay.unclaimed_urls: got string, want an integer`},
		{"string for table", "crawl = 'x'", `config.toml:1:9: crawl: got string, want a table`},
		{"twice", "api = '127.0.0.1:1'\napi = '127.0.0.1:2'",
			`config.toml:2:1: api: key api is already defined`},
		{"duration", "[crawl]\nmin_delay = 'soon'",
			`config.toml:2:13: crawl.min_delay: "soon" is not a duration`},
		{"bare duration", "[crawl]\nmin_delay = 5",
			`config.toml:2:1: crawl.min_delay: "5" is not a duration`},
		{"negative", "[crawl]\nmin_delay = '-1s'",
			`config.toml:2:1: crawl.min_delay is -1s, want 0s to 1h0m0s`},
		{"range", "[crawl]\nallow_net = ['10.0.0.0']",
			`config.toml:2:14: crawl.allow_net: netip.ParsePrefix("10.0.0.0"): no '/'`},
		{"mapped range", "[crawl]\nallow_net = ['::ffff:10.0.0.0/104']",
			`config.toml:2:1: crawl.allow_net: ::ffff:10.0.0.0/104 is a range of IPv4 addresses`},
		{"resolve", "[crawl.resolve]\n'a b' = ['192.0.2.1']",
			`config.toml:1:2: crawl.resolve: "a b" is not a host name`},
		{"resolve nothing", "[crawl.resolve]\na = []",
			`config.toml:1:2: crawl.resolve: a has no address`},
		{"listen", "listen = ['/ip4/127.0.0.1/udp/1']",
			`config.toml:1:1: listen: "/ip4/127.0.0.1/udp/1": want /ip4 or /ip6`},
		{"listen nowhere", "listen = []", `config.toml:1:1: listen is empty`},
		{"bootstrap", "bootstrap = ['/ip4/192.0.2.7/tcp/1']",
			`config.toml:1:1: bootstrap: "/ip4/192.0.2.7/tcp/1": not a multiaddr that ends`},
		{"bootstrap nowhere", "bootstrap = ['" + onePeer[len("/ip4/192.0.2.7/tcp/4101"):] + "']",
			`it names no address`},
		{"announce every address", "announce = ['/ip4/0.0.0.0/tcp/4101']",
			`config.toml:1:1: announce: "/ip4/0.0.0.0/tcp/4101": other peers cannot connect to it`},
		{"announce any port", "announce = ['/ip6/2001:db8::1/udp/0/quic-v1']",
			`other peers cannot connect to it`},
		{"api", "api = 'example.org:80'",
			`config.toml:1:1: api: "example.org:80": the host must be an IP address or localhost`},
		{"api port", "api = '127.0.0.1:99999'", `the port must be 0 to 65535`},
		{"strategy", "strategy = 'best'",
			`config.toml:1:1: strategy is "best", want one of proxy, random, hash`},
		{"contact", "contact = 'me'",
			`config.toml:1:1: contact: "me": must start with http:// or https://`},
		{"contact breaks the header", "contact = \"https://a.example/)\\nX: y\"",
			`only printable ASCII`},
		{"level", "log_level = 'loud'",
			`config.toml:1:13: log_level: slog: level string "loud": unknown name`},
		{"address requests", "[crawl]\naddress_requests = 0",
			`config.toml:2:1: crawl.address_requests is 0, want 1 to 64`},
		{"network requests", "[crawl]\nnetwork_requests = -1",
			`config.toml:2:1: crawl.network_requests is -1, want 0 to 4096`},
		{"network rate", "[crawl]\nnetwork_rate = nan",
			`config.toml:2:1: crawl.network_rate is NaN, want 0 to 1e+06`},
		{"workers", "[crawl]\nfetch_workers = 0",
			`config.toml:2:1: crawl.fetch_workers is 0, want 1 to 4096`},
		{"memory", "memory = '1MiB'",
			`config.toml:1:1: memory is 1048576, want 67108864 to 1125899906842624`},
		{"size", "[archive]\nmax_file = 'big'",
			`config.toml:2:12: archive.max_file: "big" is not a size, want one such as`},
		{"small files", "\n[archive]\n\nmax_file = 5",
			`config.toml:4:1: archive.max_file is 5, want 1048576 to`},
		{"negative size", "[archive]\nquota = -1",
			`config.toml:2:1: archive.quota is -1, want 0 to`},
		{"no switch", "[archive]\nenabled = 'yes'",
			`config.toml:2:11: archive.enabled: got string, want true or false`},
		{"replay for others", "[archive]\nenabled = true\n[replay]\nlisten = '0.0.0.0:8090'",
			`config.toml:4:1: replay.listen: "0.0.0.0:8090": not an address of this machine alone`},
		{"replay at a name", "[archive]\nenabled = true\n[replay]\nlisten = 'localhost:8090'",
			`config.toml:4:1: replay.listen: "localhost:8090": not an address of this machine`},
		{"replay without port", "[archive]\nenabled = true\n[replay]\nlisten = '127.0.0.1'",
			`config.toml:4:1: replay.listen: "127.0.0.1": not an address of this machine`},
		{"replay without archive", "[replay]\nlisten = '127.0.0.1:8090'",
			`config.toml:2:1: replay.listen needs archive.enabled`},
		{"timeout", "[crawl]\ntimeout = '0s'",
			`config.toml:2:1: crawl.timeout is 0s, want 10ms to 1h0m0s`},
		{"bare timeout", "[crawl]\nfetch_workers = 5\ntimeout = 60",
			`config.toml:3:1: crawl.timeout: "60" is not a duration`},
		{"pages a day", "[crawl]\npages_per_day = -1",
			`config.toml:2:1: crawl.pages_per_day is -1, want 0 to 1000000000000`},
		{"bandwidth", "[crawl]\nbandwidth = '2TB'",
			`config.toml:2:1: crawl.bandwidth is 2000000000000, want 0 to 1000000000000`},
		{"hours", "[crawl]\nhours = '22-6'",
			`config.toml:2:1: crawl.hours: "22-6" is not a span of hours, want one`},
		{"no number of hours", "[crawl]\nhours = 22",
			`config.toml:2:9: crawl.hours: got integer, want a string`},
		{"proxy", "[crawl]\nproxy = 'ftp://u:secret@h/'",
			`config.toml:2:1: crawl.proxy: want a URL such as`},
		{"media type", "[archive]\nmax_body = { 'Image/*' = '1MiB' }",
			`archive.max_body: "Image/*" is not a media type in lower case`},
		{"hosts to collect", "[collect]\nhosts = ['*.example.org']",
			`config.toml:2:1: collect.hosts: "*.example.org" is not a host in lower case`},
		{"collector of traces", "[traces]\nendpoint = 'collector:4318'",
			`config.toml:2:1: traces.endpoint: "collector:4318": must start with http:// or`},
		{"size below a byte", "[crawl]\nbandwidth = '0.5'", // 0 would be no limit
			`config.toml:2:13: crawl.bandwidth: "0.5" is not a size`},
		{"disk", "[crawl]\nmin_free = '1ZB'", `config.toml:2:12: crawl.min_free: "1ZB" is not a size`},
		{"bare duration inside", "[crawl]\ntimeout = 5.5",
			`config.toml:2:1: crawl.timeout: "5.5" is not a duration`},
		{"shares", "[crawl]\nshares = { own = 0.0, assigned = 2 }",
			`config.toml:2:12: crawl.shares.own is 0, want more than 0 and at most 1000`},
		{"table of shares", "[crawl.shares]\nother = 1",
			`config.toml:2:1: unknown key "crawl.shares.other"`},
		{"no share", "[crawl.shares]\nown = 'x'",
			`config.toml:2:7: crawl.shares.own: got string, want a number`},
		{"geo without its database", "memory = '1GiB'\nstrategy = 'geo'",
			`config.toml:2:1: strategy is "geo", which needs geo_db: set it to`},
		{"threshold", "threshold = '2m'", `config.toml:1:1: threshold is 2m0s, want 0s to 1m0s`},
		{"all at once", "strategy = 'x'\n[overlay]\nunclaimed_urls = 0",
			"config.toml:1:1: strategy is \"x\", want one of " + strings.Join(Strategies, ", ") +
				"\nconfig.toml:3:1: overlay.unclaimed_urls is 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseConfig("config.toml", []byte(tt.text))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error = %q, want %q in it", err, tt.want)
			}
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v does not match ErrInvalid", err)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error contains a password: %v", err)
			}
		})
	}
}

// The time for a large file with a fault at its end must not grow with the square of its size.
func TestFaultsOfLargeFiles(t *testing.T) {
	var text strings.Builder
	text.WriteString("[crawl.resolve]\n")
	for i := range 5_000 {
		fmt.Fprintf(&text, "'!%d' = ['192.0.2.1']\n", i)
	}
	text.WriteString("[crawl]\nmin_delay = 5\n")
	_, err := parseConfig("f", []byte(text.String()))
	if err == nil || !strings.Contains(err.Error(),
		`f:5003:1: crawl.min_delay: "5" is not a duration`) {
		t.Errorf("error = %.200v, want one at line 5003", err)
	}
	_, err = parseConfig("f", []byte(strings.Replace(text.String(), "= 5", "= '5h'", 1)))
	if n := strings.Count(err.Error(), "\n"); n != 5_000 || !strings.HasPrefix(err.Error(),
		"f:5003:1: crawl.min_delay is 5h0m0s") {
		t.Errorf("error has %d lines, %.200v; want 5001, the first about line 5003", n+1, err)
	}
}

func TestLoad(t *testing.T) {
	h := Home{Dir: t.TempDir()}
	if c, err := h.Load(); err != nil || !reflect.DeepEqual(c, Default()) {
		t.Errorf("Load() without a file = %+v, %v, want the defaults", c, err)
	}
	if err := os.WriteFile(h.ConfigFile(), make([]byte, maxFileBytes+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Load(); !errors.Is(err, ErrInvalid) {
		t.Errorf("Load() of a huge file: %v, want ErrInvalid", err)
	}
	if err := os.Remove(h.ConfigFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.ConfigFile(), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Load(); err == nil || !strings.Contains(err.Error(),
		filepath.Join(h.Dir, "config.toml")) {
		t.Errorf("Load() of a directory: %v, want an error with its path", err)
	}
}

func TestParseResolve(t *testing.T) {
	host, addr, err := ParseResolve("Docs.Example=2001:db8::1")
	if err != nil || host != "docs.example" || addr != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("ParseResolve() = %q, %v, %v", host, addr, err)
	}
	for _, s := range []string{"", "a", "=192.0.2.1", "a=", "a=b", "a b=192.0.2.1",
		"a=192.0.2.1:80", "a=fe80::1%eth0", "a..b=192.0.2.1", "a:80=192.0.2.1"} {
		if _, _, err := ParseResolve(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("ParseResolve(%q): %v, want ErrInvalid", s, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, s := range []string{"http://a.example", "https://a.example:8443/x?y#z",
		"http://[::1]/"} {
		if err := CheckURL(s); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []string{"", "a.example", "ftp://a.example/", "http://", "http:///x",
		"http://u:p@a.example/", "http://%zz/", "mailto:x@y",
		"http://a.example/" + strings.Repeat("x", 2048)} {
		if err := CheckURL(s); !errors.Is(err, ErrInvalid) {
			t.Errorf("CheckURL(%q): %v, want ErrInvalid", s, err)
		}
	}
}

func TestUserAgent(t *testing.T) {
	if got, want := UserAgent("https://example.org/bot"), "peerd/"+Version+
		" (+https://example.org/bot)"; got != want {
		t.Errorf("UserAgent() = %q, want %q", got, want)
	}
	if got := UserAgent(""); got != "peerd/"+Version {
		t.Errorf("UserAgent(\"\") = %q", got)
	}
}

func TestValidateBounds(t *testing.T) {
	c := Default()
	c.Overlay = Overlay{}
	c.Overlay.Settle.Duration = math.MaxInt64
	err := c.Validate()
	for _, key := range []string{"batch_max_urls", "batch_max_age", "unclaimed_urls", "lease_ttl",
		"settle"} {
		if err == nil || !strings.Contains(err.Error(), "overlay."+key+" is ") {
			t.Errorf("Validate() = %[2]v, want an error about %[1]s", key, err)
		}
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(template))
	f.Add([]byte("[crawl.resolve]\nA=['::1']\na=['::2']"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseConfig("f", text)
		if err != nil {
			checkFault(t, err)
			return
		}
		if err := c.Validate(); err != nil {
			t.Errorf("accepted an invalid file: %v", err)
		}
		if _, err := BootstrapPeers(c, DefaultProfile()); err != nil {
			t.Errorf("accepted an invalid file: %v", err)
		}
	})
}

// checkFault checks that every line of err names the file.
func checkFault(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("error %v does not match ErrInvalid", err)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, "f:") {
			t.Errorf("error %q does not name the file", line)
		}
	}
}

// Hours are never, always or a span, and nothing else.
func TestHoursForms(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	if Never.Wait(now) < 24*time.Hour || Never.Length() != 24*time.Hour ||
		Hours("").Wait(now) != 0 {
		t.Errorf("never waits %s", Never.Wait(now))
	}
	for hours, valid := range map[string]bool{"": true, "never": true, "22:00-06:00": true,
		"0:00-24:00": true, "22:00-06:00 daily": false, "22:00-06:00x": false, "Never": false,
		"12:60-13:00": false, "12:00-12:00": false, "24:00-12:00": false, "+1:00-02:00": false} {
		c := Default()
		c.Crawl.Hours = Hours(hours)
		if err := c.Validate(); (err == nil) != valid {
			t.Errorf("%q: %v, want valid: %v", hours, err, valid)
		}
	}
}
