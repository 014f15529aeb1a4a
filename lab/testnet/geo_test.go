package testnet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"peerd/lab/emulate"
	"peerd/lab/emulate/wan"
	"peerd/node"
	"peerd/node/config"
	"peerd/node/geo"
)

// A peer with strategy geo reports in one line what is wrong with the database, and
// starts when it is valid.
func TestPeerWithGeoDB(t *testing.T) {
	layout := emulate.NewLayout(wan.NewWorld(wan.Cities(), 1), 2, 12, 1)
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	o := node.Options{Home: home, Config: c, Profile: config.DefaultProfile(),
		UserAgent: "peerd-test"}
	o.Config.Strategy, o.Config.GeoDB = "geo", "cities.mmdb"
	file := filepath.Join(o.Home.Dir, "cities.mmdb")
	if _, err := node.New(o); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(),
		"geo_db: ") {
		t.Errorf("without a database: err = %v, want one of geo_db", err)
	}
	if err := os.WriteFile(file, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := node.New(o); !errors.Is(err, geo.ErrDB) || !strings.Contains(err.Error(), file) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("with an invalid database: err = %v, want one line with %s", err, file)
	}
	db, err := layout.GeoDB(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, db, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if s := n.Status(); s.GeoDB != "Testnet-City of 2026-01-01" || s.Registries == nil {
		t.Errorf("Status: GeoDB = %q, Registries = %v", s.GeoDB, s.Registries)
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}
