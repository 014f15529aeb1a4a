package node

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peerd/node/config"
	"peerd/node/emulate"
	"peerd/node/emulate/wan"
	"peerd/node/geo"
	"peerd/node/registry"
)

// A peer whose strategy lacks its data says in one line what to do, and starts
// once it is there.
func TestDataOfStrategies(t *testing.T) {
	layout := emulate.NewLayout(wan.NewWorld(wan.Cities(), 1), 2, 12, 1)

	o := options(t)
	o.Config.Strategy = "ipmicra"
	_, err := New(o)
	if !errors.Is(err, ErrStrategy) || !strings.Contains(err.Error(), `strategy is "ipmicra", and there is`) ||
		!strings.Contains(err.Error(), "peerd registry load") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a registry: %v", err)
	}
	dir := o.Home.RegistryDir()
	if err := registry.Save(dir, registry.Info{Registry: "testnet", Day: "20260928", Faulty: 3}, layout.Registry(1)); err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(dir, "arin.rir")
	if err := os.WriteFile(damaged, []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := n.Status()
	if len(s.Registries) != 1 || s.Registries[0].Registry != "testnet" || s.Registries[0].Day != "20260928" || s.Registries[0].Blocks != n.table.Len() || s.Registries[0].Faults != 3 || s.Strategy != "ipmicra" {
		t.Errorf("%+v", s.Registries)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	o.Config.Strategy = "hash" // needs none and does not read it, but tells
	if n, err = New(o); err != nil {
		t.Fatal(err)
	}
	if s := n.Status(); len(s.Registries) != 1 || n.table != nil {
		t.Errorf("%+v", s.Registries)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}

	o = options(t)
	o.Config.Strategy, o.Config.GeoDB = "geo", "cities.mmdb"
	file := filepath.Join(o.Home.Dir, "cities.mmdb")
	if _, err := New(o); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "geo_db: ") {
		t.Errorf("without a data base: %v", err)
	}
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); !errors.Is(err, geo.ErrDB) || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "\n") {
		t.Errorf("with a bad data base: %v", err)
	}
	db, err := layout.GeoDB(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, db, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err = New(o); err != nil {
		t.Fatal(err)
	}
	if s := n.Status(); s.GeoDB != "Testnet-City of 2026-01-01" || s.Registries == nil {
		t.Errorf("%q %v", s.GeoDB, s.Registries)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestGeoNeedsItsDataBase(t *testing.T) {
	c := config.Default()
	c.Strategy = "geo"
	if err := c.Validate(); !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "which needs geo_db: set it to") {
		t.Errorf("%v", err)
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
		{[]string{"/ip4/127.0.0.1/tcp/1", "/ip4/192.168.1.2/tcp/1", "/ip6/2001:db8::1/tcp/1", "/ip4/203.0.113.1/tcp/1"}, "2001:db8::1"},
		{[]string{"/ip6/fe80::1/tcp/1", "/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/192.168.1.2/tcp/1"}, "10.0.0.1"},
		{[]string{"/ip6/::ffff:203.0.113.9/tcp/1"}, "203.0.113.9"},
	} {
		want, _ := netip.ParseAddr(c.want)
		if got := addrOf(c.addrs); got != want {
			t.Errorf("%v: %v, want %v", c.addrs, got, want)
		}
	}
}
