package geo_test

import (
	"bytes"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"go4.org/netipx"

	"peerd/node/geo"
)

// database returns a database with the given records.
func database(t testing.TB, kind string, records map[string]mmdbtype.DataType) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: kind, BuildEpoch: 1767225600,
		IncludeReservedNetworks: true, RecordSize: 24})
	if err != nil {
		t.Fatal(err)
	}
	for p, r := range records {
		if err := tree.Insert(netipx.PrefixIPNet(netip.MustParsePrefix(p)), r); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, err := tree.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func at(lat, lon mmdbtype.DataType) mmdbtype.Map {
	return mmdbtype.Map{"location": mmdbtype.Map{"latitude": lat, "longitude": lon}}
}

// cities returns a database with every kind of record.
func cities(t testing.TB) []byte {
	return database(t, "Test-City", map[string]mmdbtype.DataType{
		"10.1.0.0/16": at(mmdbtype.Float64(52.37), mmdbtype.Float64(4.9)),
		"10.2.0.0/16": at(mmdbtype.Float64(0), mmdbtype.Float64(0)),
		"10.3.0.0/16": mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("NL")}},
		"10.4.0.0/16": mmdbtype.Map{"location": mmdbtype.Map{"accuracy_radius": mmdbtype.Uint16(
			100)}},
		"10.5.0.0/16":     at(mmdbtype.Float64(91), mmdbtype.Float64(4.9)),
		"10.6.0.0/16":     at(mmdbtype.String("north"), mmdbtype.String("west")),
		"10.7.0.0/16":     at(mmdbtype.Float32(-33.5), mmdbtype.Float32(151.25)),
		"10.8.0.0/16":     mmdbtype.String("what?"),
		"2001:db8:1::/48": at(mmdbtype.Float64(-1.29), mmdbtype.Float64(36.82)),
	})
}

func TestLocate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cities.mmdb")
	if err := os.WriteFile(file, cities(t), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := geo.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if db.Kind() != "Test-City of 2026-01-01" {
		t.Errorf("Kind() = %q", db.Kind())
	}
	for _, c := range []struct {
		addr     string
		lat, lon float64
		ok       bool
	}{
		{"10.1.2.3", 52.37, 4.9, true},
		{"::ffff:10.1.2.3", 52.37, 4.9, true},
		{"10.2.2.3", 0, 0, true},
		{"10.3.2.3", 0, 0, false},
		{"10.4.2.3", 0, 0, false},
		{"10.5.2.3", 0, 0, false},
		{"10.6.2.3", 0, 0, false},
		{"10.7.2.3", -33.5, 151.25, true},
		{"10.8.2.3", 0, 0, false},
		{"10.9.2.3", 0, 0, false},
		{"2001:db8:1::7", -1.29, 36.82, true},
		{"2001:db8:2::7", 0, 0, false},
	} {
		lat, lon, ok := db.Locate(netip.MustParseAddr(c.addr))
		if ok != c.ok || ok && (lat != c.lat || lon != c.lon) {
			t.Errorf("Locate(%s) = %v, %v, %v, want %v, %v, %v",
				c.addr, lat, lon, ok, c.lat, c.lon, c.ok)
		}
	}
	if _, _, ok := db.Locate(netip.Addr{}); ok {
		t.Error("Locate() of the invalid address found a location")
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, _, ok := db.Locate(netip.MustParseAddr("10.1.2.3")); ok {
		t.Error("Locate() of a closed database found a location")
	}
}

func TestOpenRefuses(t *testing.T) {
	good := cities(t)
	end := bytes.LastIndex(good, []byte("\xab\xcd\xefMaxMind.com"))
	torn := bytes.Clone(good)
	for i := 40; i < 120; i++ {
		torn[i] = 0xff // within the tree
	}
	country := database(t, "Test-Country", map[string]mmdbtype.DataType{
		"10.0.0.0/8": mmdbtype.Map{"country": mmdbtype.Map{"iso_code": mmdbtype.String("NL")}},
	})
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":         {nil, ""},
		"text":          {[]byte("hello"), "unusable database"},
		"head only":     {good[:60], "unusable database"},
		"metadata only": {good[end:], "unusable database"},
		"a torn tree":   {torn, "unusable database"},
		"countries":     {country, `a "Test-Country" has no locations; want a database of cities`},
		"no networks":   {database(t, "Empty", nil), "has no locations"},
	} {
		file := filepath.Join(t.TempDir(), "x.mmdb")
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := geo.Open(file)
		if err == nil {
			t.Errorf("Open() of %s succeeded", name)
			_ = db.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.mmdb") &&
			name != "empty" || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open() of %s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := geo.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Open() of a missing file: %v, want ErrNotExist", err)
	}
}

var realDB = flag.String("geo-db", "",
	"database of cities in MaxMind's format for TestRealDB; skipped without it")

// TestRealDB opens a real database.
func TestRealDB(t *testing.T) {
	if *realDB == "" {
		t.Skip("needs -geo-db FILE, a database of cities in MaxMind's format")
	}
	db, err := geo.Open(*realDB)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	t.Log(db.Kind())
	for _, s := range []string{"81.2.69.142", "2.125.160.216", "127.0.1.7", "10.1.0.7"} {
		lat, lon, ok := db.Locate(netip.MustParseAddr(s))
		t.Log(s, lat, lon, ok)
	}
}

// No content of a database may cause a panic or a location outside the globe.
func FuzzDB(f *testing.F) {
	good := cities(f)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "x.mmdb")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := geo.Open(file)
		if err != nil {
			return
		}
		defer db.Close()
		for _, s := range []string{"10.1.2.3", "10.6.0.1", "2001:db8:1::7", "255.255.255.255",
			"::1"} {
			lat, lon, ok := db.Locate(netip.MustParseAddr(s))
			if ok && !(lat >= -90 && lat <= 90 && lon >= -180 && lon <= 180) {
				t.Fatalf("Locate(%s) = %v, %v, want a point on the globe", s, lat, lon)
			}
		}
	})
}
