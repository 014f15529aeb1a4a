package crawl

import (
	"time"

	"peerd/crawl/robots"
	"peerd/internal/lru"
	"peerd/store"
)

// robotsElsewhere has the robots.txt of other hosts, by origin, to which those of our hosts
// redirect. Many hosts may redirect to one, which then gets a request in each lifetime of its file,
// not one for each of them. It is bounded, and only in memory: the subnets of those hosts may
// belong to other peers.
type robotsElsewhere struct {
	*lru.Cache[string, robots.Result]
}

const (
	robotsElsewhereCached  = 256
	maxRobotsElsewhereBody = 16 << 10 // bytes of a file; larger ones are rare
)

func newRobotsElsewhere() robotsElsewhere {
	return robotsElsewhere{lru.New[string, robots.Result](robotsElsewhereCached)}
}

// add adds the result for some origins, which may be the same by redirects.
func (c robotsElsewhere) add(origins []string, got robots.Result) {
	if got.Unreachable || len(got.Body) > maxRobotsElsewhereBody {
		return
	}
	for _, o := range origins {
		c.Add(o, got)
	}
}

// valid returns the result for an origin that has not expired.
func (c robotsElsewhere) valid(origin string) (robots.Result, bool) {
	got, ok := c.Get(origin)
	return got, ok && time.Now().Before(got.Expires)
}

// isRobots reports whether u is the robots.txt of its origin.
func isRobots(u store.URL) bool { return string(u) == u.Origin()+"/robots.txt" }
