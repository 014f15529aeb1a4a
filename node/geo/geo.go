// Package geo locates addresses on Earth by a geolocation database in MaxMind's format
// (https://maxmind.github.io/MaxMind-DB/), with records like those of GeoLite2 City:
// location.latitude, location.longitude.
package geo

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

// ErrDB means that a file is not a geolocation database with locations.
var ErrDB = errors.New("geo: unusable database")

// DB is an open database. It is safe for concurrent use.
type DB struct {
	r *maxminddb.Reader
}

// record is the part of a record that is read. Pointers distinguish 0 from a missing value.
type record struct {
	Location struct {
		Latitude  *float64 `maxminddb:"latitude"`
		Longitude *float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`
}

// maxValidated is the number of networks that are read when a database is opened: all of a small
// one, the first ones of a large one, in about a tenth of a second. A damaged record after them
// has no location.
const maxValidated = 1 << 16

// Open opens the file and checks that it has locations. The errors are one line and name the
// file; they wrap ErrDB if the content of the file is invalid. The file is mapped into memory:
// to replace it, rename a new one; do not write to it.
func Open(file string) (*DB, error) {
	r, err := maxminddb.Open(file)
	if err != nil {
		var bad maxminddb.InvalidDatabaseError
		if errors.As(err, &bad) {
			err = fmt.Errorf("%w: %s: %w", ErrDB, file, err)
		}
		return nil, err
	}
	db, err := newDB(r)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s: %w", ErrDB, file, err), r.Close())
	}
	return db, nil
}

// newDB checks the content of a database.
func newDB(r *maxminddb.Reader) (*DB, error) {
	n, located := 0, 0
	// Networks without data are counted as well: a damaged tree may have an endless number of
	// them.
	for res := range r.Networks(maxminddb.IncludeNetworksWithoutData()) {
		_, _, ok, err := location(res)
		if err != nil {
			return nil, err
		}
		if ok {
			located++
		}
		if n++; n == maxValidated {
			break
		}
	}
	if located == 0 {
		return nil, fmt.Errorf(
			"a %q has no locations; want a database of cities, with latitude and longitude",
			r.Metadata.DatabaseType)
	}
	return &DB{r: r}, nil
}

// Close closes the file. No other method may be called afterwards.
func (db *DB) Close() error { return db.r.Close() }

// Kind returns the type of the database and the day of its build.
func (db *DB) Kind() string {
	return fmt.Sprintf("%s of %s", db.r.Metadata.DatabaseType,
		db.r.Metadata.BuildTime().UTC().Format("2006-01-02"))
}

// Locate returns the location of an address in degrees; ok is false if the database has none.
func (db *DB) Locate(a netip.Addr) (lat, lon float64, ok bool) {
	if !a.IsValid() {
		return 0, 0, false
	}
	lat, lon, ok, err := location(db.r.Lookup(a.Unmap().WithZone("")))
	return lat, lon, ok && err == nil
}

// location reads the location of a record; ok is false if there is none.
func location(res maxminddb.Result) (lat, lon float64, ok bool, err error) {
	if err := res.Err(); err != nil || !res.Found() {
		return 0, 0, false, err
	}
	var rec record
	if err := res.Decode(&rec); err != nil {
		var other maxminddb.UnmarshalTypeError
		if errors.As(err, &other) {
			err = nil // a record of another kind, not a damaged one
		}
		return 0, 0, false, err
	}
	if rec.Location.Latitude == nil || rec.Location.Longitude == nil {
		return 0, 0, false, nil
	}
	lat, lon = *rec.Location.Latitude, *rec.Location.Longitude
	// This form is false for NaN, too.
	return lat, lon, math.Abs(lat) <= 90 && math.Abs(lon) <= 180, nil
}
