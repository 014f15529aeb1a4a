package home

import (
	"bytes"
	"fmt"
	"time"

	record "github.com/libp2p/go-libp2p-record"
)

// Namespace is the part of the DHT's key space that homes live in.
const Namespace = "peerd-home"

// Key returns the DHT key of the home of host: /peerd-home/<host>.
func Key(host string) string { return "/" + Namespace + "/" + host }

// Validator judges homes for the DHT. It has no state and may be used by many at
// once.
type Validator struct {
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

var _ record.Validator = Validator{}

// Validate accepts a sealed record under its own key from Skew before its issue.
func (v Validator) Validate(key string, value []byte) error {
	r, err := Open(value)
	if err != nil {
		return err
	}
	if Key(r.Host) != key {
		return fmt.Errorf("%w: %.80q holds the home of %s", ErrKey, key, r.Host)
	}
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	return r.CheckTime(now())
}

// Select returns the index of the best value: by Better, then by bytes; the first
// of identical ones, so that a value put again counts as accepted. What cannot be
// opened loses; if nothing can, that is an error. The clock plays no part,
// so every replica selects alike.
func (v Validator) Select(_ string, values [][]byte) (int, error) {
	best, at := Record{}, -1
	for i, val := range values {
		r, err := Open(val)
		if err != nil {
			continue
		}
		if at >= 0 {
			c := Better(r, best)
			if c == 0 {
				c = bytes.Compare(val, values[at])
			}
			if c <= 0 {
				continue
			}
		}
		best, at = r, i
	}
	if at < 0 {
		return 0, fmt.Errorf("home: no valid record among %d", len(values))
	}
	return at, nil
}
