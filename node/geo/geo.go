// Package geo tells where on Earth an address is, by a data base in MaxMind's
// format (https://maxmind.github.io/MaxMind-DB/) with records like those of
// GeoLite2 City: location.latitude, location.longitude.
package geo

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/oschwald/maxminddb-golang/v2"
)

// ErrDB says that a file is no data base of places.
var ErrDB = errors.New("geo: unusable data base")

// DB is an open data base. It may be asked by several at a time.
type DB struct {
	r *maxminddb.Reader
}

// record is what is read of a record; pointers, because 0 is a place.
type record struct {
	Location struct {
		Latitude  *float64 `maxminddb:"latitude"`
		Longitude *float64 `maxminddb:"longitude"`
	} `maxminddb:"location"`
}

// lookAt is how many networks are read when a data base is opened: all of a
// small one, the beginning of a large one, in about a tenth of a second. What is
// damaged behind has no place when it is asked for.
const lookAt = 1 << 16

// Open opens the file and looks whether there are places in it. The errors
// are one line and name the file; they wrap ErrDB if the file's content is to
// blame. The file is mapped into memory: replace it by renaming another one, do
// not write into it.
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

// OpenBytes is Open of a file's content, which must not change any more.
func OpenBytes(data []byte) (*DB, error) {
	r, err := maxminddb.OpenBytes(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDB, err)
	}
	db, err := newDB(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDB, err)
	}
	return db, nil
}

// newDB checks what is in a data base.
func newDB(r *maxminddb.Reader) (*DB, error) {
	n, places := 0, 0
	// Those without data are counted as well: a torn tree may have no end of them.
	for res := range r.Networks(maxminddb.IncludeNetworksWithoutData()) {
		_, _, ok, err := place(res)
		if err != nil {
			return nil, err
		}
		if ok {
			places++
		}
		if n++; n == lookAt {
			break
		}
	}
	if places == 0 {
		return nil, fmt.Errorf("it is a %q and has no places; want one of cities, with latitude and longitude", r.Metadata.DatabaseType)
	}
	return &DB{r: r}, nil
}

// Close gives the file back. Nobody may ask any more.
func (db *DB) Close() error { return db.r.Close() }

// Kind is the data base's own name of what it is, and the day it was made.
func (db *DB) Kind() string {
	return fmt.Sprintf("%s of %s", db.r.Metadata.DatabaseType, db.r.Metadata.BuildTime().UTC().Format("2006-01-02"))
}

// Locate returns the place of an address in degrees; ok is false if it has none
// in the data base.
func (db *DB) Locate(a netip.Addr) (lat, lon float64, ok bool) {
	if !a.IsValid() {
		return 0, 0, false
	}
	lat, lon, ok, err := place(db.r.Lookup(a.Unmap().WithZone("")))
	return lat, lon, ok && err == nil
}

// place reads the place out of a record; ok is false if there is none.
func place(res maxminddb.Result) (lat, lon float64, ok bool, err error) {
	if err := res.Err(); err != nil || !res.Found() {
		return 0, 0, false, err
	}
	var rec record
	if err := res.Decode(&rec); err != nil {
		var other maxminddb.UnmarshalTypeError
		if errors.As(err, &other) {
			err = nil // a record of another kind, not a broken one
		}
		return 0, 0, false, err
	}
	if rec.Location.Latitude == nil || rec.Location.Longitude == nil {
		return 0, 0, false, nil
	}
	lat, lon = *rec.Location.Latitude, *rec.Location.Longitude
	// Written so that a NaN fails too.
	return lat, lon, math.Abs(lat) <= 90 && math.Abs(lon) <= 180, nil
}
