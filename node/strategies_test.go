package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/assign/assigntest"
	_ "peerd/internal/rapidtest"
	"peerd/node/config"
	"peerd/node/registry"
	"peerd/overlay/peers"
)

// A peer without the data of its strategy does not start, and the error, one line, says what to
// do.
func TestDataOfStrategies(t *testing.T) {
	o := options(t)
	o.Config.Strategy = "ipmicra"
	_, err := New(o)
	if !errors.Is(err, ErrStrategy) || !strings.Contains(err.Error(),
		`strategy is "ipmicra", and there is`) ||
		!strings.Contains(err.Error(), "peerd registry load") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("New() without registry data = %v, want ErrStrategy and advice", err)
	}
	dir := o.Home.RegistryDir()
	if _, err := registry.Store(dir, []byte("2|testnet|1|3||20260928|+0000\n"+
		"testnet|ZZ|ipv4|127.0.0.0|16777216||allocated\n"+
		"testnet|ZZ|ipv4|127.80.0.0|256||allocated|a\ntestnet|ZZ|ipv4\n")); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "arin.delegated")
	if err := os.WriteFile(damaged, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := n.Status()
	if len(s.Registries) != 1 || s.Registries[0].Registry != "testnet" ||
		s.Registries[0].Day != "20260928" || s.Registries[0].Blocks != 2 ||
		s.Registries[0].Faults != 1 || s.Strategy != "ipmicra" {
		t.Errorf("Status().Registries = %+v", s.Registries)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestGeoNeedsDatabase(t *testing.T) {
	c := config.Default()
	c.Strategy = "geo"
	if err := c.Validate(); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(),
		"which needs geo_db: set it to") {
		t.Errorf("Validate() without geo_db = %v, want ErrInvalid", err)
	}
	c.GeoDB = "x.mmdb"
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestAddrOf(t *testing.T) {
	for _, c := range []struct {
		addrs []string
		want  string
	}{
		{nil, ""},
		{[]string{"nonsense", "/dns4/a.example/tcp/1", "/ip4/0.0.0.0/tcp/1"}, ""},
		{[]string{"/ip4/127.64.0.1/tcp/1"}, "127.64.0.1"},
		{[]string{"/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.2/tcp/1", "/ip6/2001:db8::1/tcp/1",
			"/ip4/203.0.113.1/tcp/1"}, "2001:db8::1"},
		{[]string{"/ip6/fe80::1/tcp/1", "/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/192.168.1.2/tcp/1"},
			"10.0.0.1"},
		{[]string{"/ip6/::ffff:203.0.113.9/tcp/1"}, "203.0.113.9"},
	} {
		want, _ := netip.ParseAddr(c.want)
		if got := addrOf(c.addrs); got != want {
			t.Errorf("addrOf(%v) = %v, want %v", c.addrs, got, want)
		}
	}
}

// A candidate has all that its beacon says, and what the simulations of the lab give theirs. How
// its place was judged does not come from the beacon.
func TestCandidateIsComplete(t *testing.T) {
	b := peers.Beacon{Peer: "p", At: coords.Coordinate{Vec: []float64{1, 2, 3, 4}, Error: 0.1},
		Wait: time.Second, Capacity: 1, Traits: new(coords.Traits),
		Addrs: []string{"/ip4/8.8.8.8/tcp/1"}}
	assigntest.Complete(t, []assign.Candidate{candidate(b.Peer, b)}, "Place")
}
