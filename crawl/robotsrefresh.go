package crawl

import (
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"peerd/crawl/frontier"
	"peerd/crawl/robots"
	"peerd/store"
)

// A RobotsFile is what is known of the robots.txt of an origin.
type RobotsFile struct {
	Origin string
	robots.Result
}

// Robots returns what is known of the robots.txt of each origin of a host. With refresh, no copy is
// valid any longer: the file is requested before the next URL of its origin is, as soon as the
// delays of the host allow, which do not include those after failures. A copy stays in force while
// the file is unreachable. The error is
// frontier.ErrUnknownHost if the host is not ours, or comes from the store.
func (c *Crawler) Robots(host string, refresh bool) (files []RobotsFile, err error) {
	if !c.cfg.Frontier.Owns(host) {
		return nil, fmt.Errorf("crawl: robots.txt of %s: %w", host, frontier.ErrUnknownHost)
	}
	read := func(tx *store.Tx) error {
		files = nil
		return tx.RobotsOf(host, func(origin string, raw []byte) error {
			f := RobotsFile{Origin: origin}
			if cbor.Unmarshal(raw, &f.Result) == nil {
				files = append(files, f)
			}
			return nil
		})
	}
	if !refresh {
		err = c.cfg.DB.View(read)
		return files, err
	}
	err = c.cfg.DB.Update(func(tx *store.Tx) error {
		if err := read(tx); err != nil {
			return err
		}
		now := time.Now().UTC().Round(0)
		for i := range files {
			files[i].Expires = now
			raw, err := cbor.Marshal(files[i].Result)
			if err := errors.Join(err, tx.PutRobots(files[i].Origin, raw)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		c.robots.forget(host)
		c.cfg.Frontier.SetRetryAt(host, time.Time{})
	}
	return files, err
}
