package node

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay/owner"
)

// URLs that were dropped without a name count as "limit"; marks are not drops.
func TestSplitReasons(t *testing.T) {
	for _, c := range []struct {
		total           int64
		named           map[string]int64
		dropped, marked map[string]int64
	}{
		{0, nil, map[string]int64{}, map[string]int64{}},
		{7, map[string]int64{"yield": 4, "subdomains": 1, "duplicate": 9},
			map[string]int64{"yield": 4, "subdomains": 1, "limit": 2},
			map[string]int64{"duplicate": 9}},
		{4, map[string]int64{"length": 4}, map[string]int64{"length": 4}, map[string]int64{}},
	} {
		dropped, marked := splitReasons(c.total, c.named)
		if !maps.Equal(dropped, c.dropped) || !maps.Equal(marked, c.marked) || dropped == nil ||
			marked == nil {
			t.Errorf("splitReasons(%d, %v) = %v, %v, want %v, %v",
				c.total, c.named, dropped, marked, c.dropped, c.marked)
		}
	}
}

// A peer that only mDNS can connect does not claim subnets before it has had time to meet others.
func TestMayClaimWithMDNS(t *testing.T) {
	o := options(t)
	o.Config.MDNS, o.Config.Bootstrap = true, nil
	n := newNode(t, o)
	defer n.Close()
	for _, c := range []struct {
		up   time.Duration
		want error
	}{{joinPatience - time.Second, errSearching}, {joinPatience, nil}} {
		if err := n.mayClaim(n.started.Add(c.up)); !errors.Is(err, c.want) {
			t.Errorf("mayClaim() %v after the start = %v, want %v", c.up, err, c.want)
		}
	}
	n.opts.Config.MDNS = false
	if err := n.mayClaim(n.started); err != nil {
		t.Errorf("mayClaim() of the first peer of a network = %v, want nil", err)
	}
}

// The status gives the reasons why nothing is fetched or claimed.
func TestBlocked(t *testing.T) {
	o := options(t)
	o.Config.Crawl.Hours = "03:00-04:00"
	o.Config.Archive.Enabled, o.Config.Archive.Quota = true, 1<<30
	o.Config.Bootstrap = []string{
		"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX"}
	n := newNode(t, o)
	defer n.Close()
	at := time.Date(2026, 1, 31, 5, 0, 0, 0, time.Local)
	for _, c := range []struct {
		at        time.Time
		unclaimed bool
		want      []string
	}{
		{at, false, []string{"(crawl.hours), until 2026-02-01 03:00"}},
		{at, true, []string{"(crawl.hours)"}}, // which is also why nothing is claimed
		{at.Add(-90 * time.Minute), false, nil},
		{at.Add(-90 * time.Minute), true, []string{"can be reached"}},
	} {
		got := n.blocked(c.at, c.unclaimed)
		if len(got) != len(c.want) {
			t.Errorf("blocked(%v, %v) = %q, want %q", c.at, c.unclaimed, got, c.want)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("blocked(%v, %v) = %q, want %q", c.at, c.unclaimed, got, c.want)
			}
		}
	}
	if err := n.mayClaim(at); !errors.Is(err, errHours) || errors.Is(err, owner.ErrAlone) {
		t.Errorf("mayClaim() outside the hours = %v, want errHours", err)
	}
	if err := n.mayClaim(at.Add(-90 * time.Minute)); !errors.Is(err, owner.ErrAlone) {
		t.Errorf("mayClaim() without peers = %v, want ErrAlone", err)
	}
	if b := n.Status().Bootstrap; len(b) != 1 || b[0].Addr != o.Config.Bootstrap[0] ||
		b[0].Connected {
		t.Errorf("Status().Bootstrap = %+v, want one address that is not connected", b)
	}
	if a := n.Status().Archive; a == nil || a.Quota != 1<<30 {
		t.Errorf("Status().Archive = %+v", a)
	}

	o = options(t)
	o.Config.Crawl.MinFree = 1 << 60
	n = newNode(t, o)
	defer n.Close()
	if got := n.blocked(at, true); len(got) != 1 || !strings.Contains(got[0], "(crawl.min_free)") {
		t.Errorf("blocked() with a full disk = %q", got)
	}
	if n.Status().Archive != nil {
		t.Error("Status().Archive of a peer without archive is not nil")
	}
}

// A collector that fetches nothing is not held back by that, and says that it reaches no peer.
func TestHealthOfCollector(t *testing.T) {
	o := options(t)
	o.Config.Archive.Enabled, o.Config.Collect.Enabled = true, true
	o.Config.Crawl.Hours = config.Never
	n := newNode(t, o)
	defer n.Close()
	if s := n.Status(); s.Health.State != admin.HealthAlone || len(s.Blocked) > 0 {
		t.Errorf("health %+v, blocked %q, want alone and nothing", s.Health, s.Blocked)
	}
	if !(&measured{n: n}).blocked(time.Now())["hours"] {
		t.Error("the metrics do not say that nothing is fetched")
	}
	n.opts.Config.Collect.Enabled = false
	want := "set to fetch nothing at any hour (crawl.hours)"
	if got := n.blocked(time.Now(), false); len(got) != 1 || got[0] != want {
		t.Errorf("blocked() without collect.enabled = %q, want %q", got, want)
	}
}

// The status shows why a bootstrap address cannot be reached.
func TestBootstrapStatus(t *testing.T) {
	other := newNode(t, options(t))
	defer running(t, other)()
	o := options(t)
	o.Config.Bootstrap = []string{
		"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX",
		other.Addrs()[0],
	}
	n := newNode(t, o)
	defer running(t, n)()
	state := func(addr string) admin.BootstrapAddr {
		for _, b := range n.Status().Bootstrap {
			if b.Addr == addr {
				return b
			}
		}
		return admin.BootstrapAddr{}
	}
	until(t, time.Minute, "the first address has failed", func() bool {
		b := state(o.Config.Bootstrap[0])
		return !b.Connected && b.LastError != "" && b.NextAttempt != nil
	})
	until(t, time.Minute, "the second address is connected", func() bool {
		b := state(o.Config.Bootstrap[1])
		return b.Connected && b.LastError == "" && b.NextAttempt == nil
	})
}

// A peer that cannot reach the network that it is to join says so, also when URLs are waiting.
func TestHealthWithoutBootstrap(t *testing.T) {
	o := options(t)
	o.Config.Bootstrap = []string{
		"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX",
	}
	o.Profile.Seeds = []string{"http://127.0.0.1:8099/"}
	n := newNode(t, o)
	defer running(t, n)()
	var s admin.Status
	until(t, time.Minute, "a URL waits for an owner", func() bool {
		s = n.Status()
		return s.Frontier.Unclaimed > 0 && len(s.Blocked) > 0
	})
	if s.Health.State != admin.HealthJoining && s.Health.State != admin.HealthAlone {
		t.Errorf("health %+v, want joining or alone", s.Health)
	}
}
