package testnet

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rir "peerd/coords/registry"
	"peerd/lab/emulate"
	"peerd/node/config"
	"peerd/node/registry"
)

// data is the address data that peers are given if their strategy needs it.
type data struct {
	geoDB   string // path; "" means none
	entries []rir.Entry
}

// newData creates the data for the strategy of o, with files in dir.
func newData(o Options, l emulate.Layout, dir string) (d data, err error) {
	if config.NeedsRegistry(o.Strategy) {
		d.entries = l.Registry(o.Seed)
	}
	if o.Strategy != "geo" {
		return d, nil
	}
	db, err := l.GeoDB(o.GeoError, o.Seed)
	if err != nil {
		return d, err
	}
	if d.geoDB, err = filepath.Abs(filepath.Join(dir, "places.mmdb")); err != nil {
		return d, err
	}
	return d, os.WriteFile(d.geoDB, db, 0o600)
}

// into writes the data into a home directory.
func (d data) into(h config.Home) error {
	if d.entries == nil {
		return nil
	}
	if _, err := registry.Store(h.RegistryDir(), delegated(d.entries)); err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	return nil
}

// delegated returns IPv4 entries as a delegated-extended file.
func delegated(entries []rir.Entry) []byte {
	out := fmt.Appendf(nil, "2|%s|1|%d||20260928|+0000\n", entries[0].Registry, len(entries))
	for _, e := range entries {
		_, id, _ := strings.Cut(e.Holder, ":")
		out = fmt.Appendf(out, "%s|%s|ipv4|%s|%d||allocated|%s\n", e.Registry, e.Country,
			e.Prefix.Addr(), 1<<(32-e.Prefix.Bits()), id)
	}
	return out
}
