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
	return &health{hosts: hosts}
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

// silent says whether an outcome means that the server did not answer at all.
func silent(o store.Outcome) bool {
	return o == store.OutcomeConnect || o == store.OutcomeTimeout || o == store.OutcomeReset
}

// ail takes in how a job of ours ended. It returns how long its host rests for
// it, and whether the host is given up.
func (c *Crawler) ail(job frontier.Job, o store.Outcome) (rest time.Duration, dead bool) {
	if !silent(o) {
		c.health.answered(job.Host)
		return 0, false
	}
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

// forsake gives up all that is queued at a host that does not answer.
func (c *Crawler) forsake(job frontier.Job) error {
	n, err := c.cfg.Frontier.Forsake(job, maxPushes)
	c.log.Warn("host given up: it does not answer", "host", job.Host, "addr", job.Addr, "urls", n)
	c.health.answered(job.Host)
	return err
}
