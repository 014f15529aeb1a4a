package doctor

import (
	"context"
	"crypto/x509"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"peerd/node/admin"
	"peerd/node/config"
)

// examine writes config.toml and returns the findings by check.
func examine(t *testing.T, h config.Home, text string) map[string]Finding {
	t.Helper()
	if err := os.WriteFile(h.ConfigFile(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	all := map[string]Finding{}
	for _, f := range Examine(t.Context(), h) {
		if (f.State == OK) != (f.Do == "") && f.Do != "" {
			t.Errorf("%+v: advice although all is well", f)
		}
		all[f.Check] = f
	}
	return all
}

const quiet = "contact = 'https://example.org/'\n[crawl.resolve]\n'example.com' = ['192.0.2.1']\n"

// Each fault is found, with what to do.
func TestExamine(t *testing.T) {
	h, err := config.Init(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	taken := "listen = ['/ip4/127.0.0.1/tcp/" + port + "']\n"
	free := "listen = ['/ip4/127.0.0.1/tcp/0']\n"
	boot := "bootstrap = ['/ip4/127.0.0.1/tcp/" + port +
		"/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX']\n"
	for name, tt := range map[string]struct {
		text, check string
		want        State
	}{
		"settings":  {"mdns = 1", "settings", Fail},
		"peer":      {free + quiet, "peer", Warn},
		"contact":   {free + strings.Replace(quiet, "contact", "#", 1), "contact", Warn},
		"taken":     {taken + quiet, "ports", Fail},
		"free":      {free + quiet, "ports", OK},
		"names":     {free + quiet, "names", OK},
		"bootstrap": {free + boot + quiet, "bootstrap", OK},
		"full disk": {free + strings.Replace(quiet, "[crawl.resolve]",
			"[crawl]\nmin_free = '1000000TB'\n[crawl.resolve]", 1), "disk", Fail},
		"disk":       {free + quiet, "disk", OK},
		"membership": {free + quiet, "membership", OK},
	} {
		got := examine(t, h, tt.text)[tt.check]
		if got.State != tt.want || got.State == Fail && got.Do == "" {
			t.Errorf("%s: %+v, want %s", name, got, tt.want)
		}
	}
	p := config.NewProfile()
	p.Name, p.Scope.Mode, p.Admission = "x", "any", "closed"
	p.Founders = []string{"12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX"}
	if err := h.SaveNetwork(p, nil); err != nil {
		t.Fatal(err)
	}
	if got := examine(t, h, free+quiet)["membership"]; got.State != Fail {
		t.Errorf("not a member: %+v", got)
	}
}

// The default addresses of IPv6 are no fault of a machine without IPv6, on which a peer runs.
func TestPortsWithoutIPv6(t *testing.T) {
	var lc net.ListenConfig
	for _, v6 := range []bool{true, false} {
		p := &patient{}
		p.listen = func(ctx context.Context, network, addr string) (net.Listener, error) {
			switch {
			case network == "tcp6" && !v6:
				return nil, syscall.EAFNOSUPPORT
			case addr == "[::]:4101":
				return nil, syscall.EADDRINUSE
			}
			return lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		}
		p.conf.Listen = []string{"/ip4/0.0.0.0/tcp/4101", "/ip6/::/tcp/4101"}
		p.ports(t.Context())
		want := map[bool]State{true: Fail, false: OK}[v6]
		if len(p.all) != 1 || p.all[0].State != want {
			t.Errorf("IPv6 %v: %+v, want %s", v6, p.all, want)
		}
	}
}

// A machine without certificate authorities, as a container may be, verifies no web site.
func TestAuthorities(t *testing.T) {
	some := x509.NewCertPool()
	some.AddCert(&x509.Certificate{Raw: []byte{1}})
	for _, tt := range []struct {
		pool  *x509.CertPool
		files []string
		want  []State
	}{
		{some, nil, []State{OK}},
		{x509.NewCertPool(), nil, []State{Fail}},
		{x509.NewCertPool(), []string{"ca.pem"}, nil},
	} {
		p := &patient{roots: func() (*x509.CertPool, error) { return tt.pool, nil }}
		p.conf.Crawl.CAFiles = tt.files
		p.authorities(t.Context())
		var got []State
		for _, f := range p.all {
			got = append(got, f.State)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("files %v: %+v, want %v", tt.files, p.all, tt.want)
		}
	}
}

func TestClock(t *testing.T) {
	for _, tt := range []struct {
		clock *admin.Clock
		want  State
		text  string
	}{
		{nil, "", ""},
		{&admin.Clock{AheadS: 29, Peers: 1}, OK, "agrees"},
		{&admin.Clock{AheadS: -31, Peers: 1}, Warn, "31s behind those of other peers (1)"},
		{&admin.Clock{AheadS: 3600, Peers: 2, Wrong: true}, Fail,
			"1h0m0s ahead of those of other peers (2)"},
	} {
		p := &patient{status: &admin.Status{Clock: tt.clock}}
		p.clock(t.Context())
		if tt.want == "" && len(p.all) == 0 {
			continue
		}
		if len(p.all) != 1 || p.all[0].State != tt.want ||
			!strings.Contains(p.all[0].Text, tt.text) {
			t.Errorf("%+v: %+v, want %s, %q", tt.clock, p.all, tt.want, tt.text)
		}
	}
}
