package crawl

import (
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"peerd/crawl/frontier"
	"peerd/store"
)

const (
	// brittle is the number of URLs in a row without an answer from which on
	// it is the host that is down, and not a page.
	brittle = 8
	// longestRest bounds the wait between two looks at a host that is down.
	longestRest = time.Hour
	// watched is how many failing hosts are remembered.
	watched = 16384
)

// health is a circuit breaker a host. A host that answers nothing rests, twice
// as long each time, and one URL looks whether it is back; without that, every
// URL of a dead host would cost its time-outs.
type health struct {
	mu    sync.Mutex
	hosts *lru.Cache[string, ailing]
	dead  map[string]bool // being given up
}

// ailing is a host that has failed.
type ailing struct {
	failed int // URLs in a row
	rests  int
}

func newHealth() *health {
	hosts, err := lru.New[string, ailing](watched)
	if err != nil {
		panic(err) // only for a size <= 0
	}
	return &health{hosts: hosts, dead: map[string]bool{}}
}

// answered forgets all failures of a host.
func (h *health) answered(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hosts.Remove(host)
}

// failed counts a failure. It says how often the host has been put to rest so
// far, this time included; 0 means that it may go on.
func (h *health) failed(host string) (rests int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, _ := h.hosts.Get(host)
	a.failed++
	if a.failed >= brittle {
		a.rests++
	}
	h.hosts.Add(host, a)
	return a.rests
}

// forsake begins, and its end ends, the time in which a host is being given up.
func (h *health) forsake(host string) (end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead[host] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.dead, host)
	}
}

// forsaken says whether a host is being given up.
func (h *health) forsaken(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead[host]
}

// silent says whether an outcome means that the server did not answer at all.
func silent(o store.Outcome) bool {
	return o == store.OutcomeConnect || o == store.OutcomeTimeout || o == store.OutcomeReset
}

// doubt tells that a host of ours did not answer.
func (c *Crawler) doubt(host string) {
	if c.cfg.Doubt != nil {
		c.cfg.Doubt(host)
	}
}

// ail takes in how a job of ours ended. It returns how long its host rests for
// it, and whether the host is given up.
func (c *Crawler) ail(job frontier.Job, o store.Outcome) (rest time.Duration, dead bool) {
	if !silent(o) {
		c.health.answered(job.Host)
		return 0, false
	}
	c.doubt(job.Host)
	rests := c.health.failed(job.Host)
	if rests == 0 {
		return 0, false
	}
	rest = longestRest
	if rests < 16 {
		rest = min(c.cfg.BackOff*brittle<<(rests-1), longestRest)
	}
	return rest, rests > c.cfg.MaxRests
}

// forsake gives up all that is queued at a host that does not answer. Each page
// is recorded and, if it was to be visited again, planned anew, before the
// queue is emptied: a crash in between repeats that. No visit is queued
// meanwhile, which would be lost.
func (c *Crawler) forsake(job frontier.Job, rep store.FetchReport) error {
	defer c.health.forsake(job.Host)()
	wait, err := c.chargeAlone(job.Host, 1, 0)
	for last := []byte(nil); err == nil; {
		after := last
		err = c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
			last, err = c.bury(tx, job.Host, after, rep)
			return err
		})
		if last == nil {
			break
		}
	}
	if err != nil {
		c.cfg.Frontier.Release(job, false, 0, wait)
		return err
	}
	n, err := c.cfg.Frontier.Forsake(job, maxPushes)
	c.log.Warn("host given up: it does not answer", "host", job.Host, "addr", job.Addr, "urls", n)
	c.health.answered(job.Host)
	return err
}

// bury does that for some of a host's entries, from the one behind after on.
// It returns the key of the last, nil if there were none.
func (c *Crawler) bury(tx *store.Tx, host string, after []byte, rep store.FetchReport) (last []byte, err error) {
	var some []store.Entry
	err = tx.Queue(host, after, func(e store.Entry) (bool, error) {
		some = append(some, e)
		return len(some) < maxPlans, nil
	})
	for _, e := range some {
		if err == nil {
			err = c.missed(tx, e, rep)
		}
		if err == nil {
			err = c.after(tx, e, sighting{outcome: rep.Outcome})
		}
		last = e.Key
	}
	return last, err
}
