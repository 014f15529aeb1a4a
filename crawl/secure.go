package crawl

import (
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/hsts"
	"peerd/store"
)

const (
	// hstsHosts is the number of hosts that are remembered to want TLS: at most 8 MiB.
	hstsHosts = 1 << 15
	// hstsSpace is the prefix of their keys in the store.
	hstsSpace = "hsts/"
)

// loadHSTS returns the stored set of hosts that want TLS. It deletes those that have expired.
func loadHSTS(db *store.DB) (*hsts.Set, error) {
	set := hsts.New(hstsHosts)
	var old []hsts.Change
	err := db.EachData(hstsSpace, func(host string, val []byte) error {
		var p hsts.Policy
		forgotten := host
		if cbor.Unmarshal(val, &p) == nil {
			forgotten = set.Load(host, p, time.Now())
		}
		if forgotten != "" {
			old = append(old, hsts.Change{Host: forgotten, Delete: true})
		}
		return nil
	})
	for part := range slices.Chunk(old, maxPushes) {
		if err == nil {
			err = saveHSTS(db, part)
		}
	}
	if store.IsNoSpace(err) {
		err = nil // they are deleted the next time
	}
	return set, err
}

// saveHSTS stores changes of the set.
func saveHSTS(db *store.DB, changes []hsts.Change) error {
	return db.Batch(func(tx *store.Tx) error {
		for _, c := range changes {
			key := hstsSpace + c.Host
			if c.Delete {
				if err := tx.DeleteData(key); err != nil {
					return err
				}
				continue
			}
			raw, err := cbor.Marshal(c.Policy)
			if err == nil {
				err = tx.PutData(key, raw)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// noteHSTS remembers what an answer says about TLS. If it cannot be stored, it is known until the
// next restart.
func (c *Crawler) noteHSTS(u store.URL, res *fetch.Result) {
	field := res.Header.Get("Strict-Transport-Security")
	if field == "" || res.TLS == nil || !res.TLS.Verified {
		return
	}
	changes := c.hsts.Note(u.Host(), field, time.Now())
	if len(changes) == 0 {
		return
	}
	if err := saveHSTS(c.cfg.DB, changes); err != nil {
		c.log.Debug("failed to store that a host wants TLS", "host", u.Host(), "err", err)
	}
}

// secure returns the URL to fetch for u: with https if its host wants TLS (RFC 6797, section 8.3).
func (c *Crawler) secure(u store.URL, now time.Time) store.URL {
	if !strings.HasPrefix(string(u), "http://") || !c.hsts.Applies(u.Host(), now) {
		return u
	}
	origin := u.Origin()
	secured := strings.TrimSuffix("https"+strings.TrimPrefix(origin, "http"), ":443")
	return store.URL(secured) + u[len(origin):]
}

// upgrade replaces the queued URL of a job by that with https if its host has begun to want TLS
// since it was queued. It reports whether it did; the job has then ended.
func (c *Crawler) upgrade(job frontier.Job) (done bool, err error) {
	now := time.Now()
	u := c.secure(job.Entry.URL, now)
	if u == job.Entry.URL || job.Entry.Kind.Revisit() {
		return false, nil
	}
	e := job.Entry
	next := store.Pending{
		URL: u, Depth: e.Depth, Kind: e.Kind, From: e.From, Hops: e.Hops, Source: e.Source,
		Found: now,
	}
	err = c.routeAll([]store.Pending{next}, nil, func(tx *store.Tx) error {
		return tx.Remove(job.Host, e)
	})
	c.cfg.Frontier.Return(job, err == nil)
	return true, err
}
