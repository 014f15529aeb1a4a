package pace

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/lru"
)

// Config configures a Pacer.
type Config struct {
	// Factor times the download time is the pause; 0 disables pauses.
	Factor float64
	// Max is the longest pause.
	Max time.Duration
	// Servers is the number of servers that are remembered, the most recently observed
	// ones; 0 means 65,536, about 5 MB.
	Servers int
}

// Validate returns an error if c is invalid.
func (c Config) Validate() error {
	switch {
	case !(c.Factor >= 0 && c.Factor <= 1000):
		return fmt.Errorf("pace: Factor is %v, want 0 to 1000", c.Factor)
	case c.Max < 0:
		return fmt.Errorf("pace: Max is %v, want 0 or more", c.Max)
	case c.Servers < 0:
		return fmt.Errorf("pace: Servers is %d, want 0 or more", c.Servers)
	}
	return nil
}

const (
	// recentWeight and usualWeight are the weights of a new download time in the means for
	// the present and for the usual behaviour of a server.
	recentWeight, usualWeight = 0.3, 0.02
	// minAnswers is the number of answers after which a server is compared with its usual
	// behaviour.
	minAnswers = 8
	// driftWeight is the weight of one server's change in the mean change of all servers.
	driftWeight = 0.05
	// overloadRatio is the ratio of recent to usual times, without the drift of all
	// servers, above which a server counts as overloaded. maxOverload limits how much that
	// lengthens the pause.
	overloadRatio, maxOverload = 2.0, 16.0
	// usualRatio is the same ratio up to which a server answers as usual.
	usualRatio = 1.4
	// minFirst is the least time until the first byte that is told from others: below, the
	// machines at both ends decide.
	minFirst = time.Millisecond
)

// A Trend compares how long a server takes to answer now with how long it usually does. What all
// servers have in common is left out.
type Trend int

const (
	Usual      Trend = iota // no longer, or too little is known
	Slower                  // longer
	Overloaded              // more than twice as long
)

// Pacer remembers the download times of servers. It is safe for concurrent use.
type Pacer struct {
	cfg Config

	mu      sync.Mutex
	servers *lru.Cache[netip.Addr, server]
	drift   float64 // mean of log(recent / usual) over all servers: changes on this peer's side
}

// server holds logarithms of seconds: of downloads, and of times until the first byte.
type server struct {
	download      float64
	recent, usual float64
	answers       int
}

// New returns a Pacer.
func New(c Config) (*Pacer, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Servers = cmp.Or(c.Servers, 1<<16)
	return &Pacer{cfg: c, servers: lru.New[netip.Addr, server](c.Servers)}, nil
}

// Longest returns the longest pause; 0 if p is nil.
func (p *Pacer) Longest() time.Duration {
	if p == nil {
		return 0
	}
	return p.cfg.Max
}

// Observe records the time of one answer, and of that the time from the end of the request to the
// first byte: it depends on the load of the server, and not on the size of the answer or on whether
// a connection was opened. slots is how many requests at a time the server may get: what it does
// with many must not become usual, nor count as a change of all servers, so the more there are, the
// less it counts. Observe returns how long to leave the server alone.
func (p *Pacer) Observe(
	addr netip.Addr, took, first time.Duration, slots int,
) (time.Duration, Trend) {
	if took <= 0 {
		return 0, Usual
	}
	alone := 1 / float64(slots*slots)
	d, t := math.Log(took.Seconds()), math.Log(min(max(first, minFirst), took).Seconds())
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.servers.Get(addr)
	if known {
		s.download += recentWeight * (d - s.download)
		s.recent += recentWeight * (t - s.recent)
		s.usual += usualWeight * alone * (t - s.usual)
	} else {
		s.download, s.recent, s.usual = d, t, t
	}
	s.answers++
	trend, overload := Usual, 1.0
	if s.answers > minAnswers {
		change := s.recent - s.usual
		switch e := math.Exp(change - max(p.drift, 0)); {
		case e > overloadRatio:
			trend, overload = Overloaded, min(e, maxOverload)
		case e > usualRatio:
			trend = Slower
		}
		p.drift += driftWeight * alone * (min(max(change, -1), 1) - p.drift)
	}
	p.servers.Add(addr, s)
	pause := p.cfg.Factor * overload * max(math.Exp(s.download), took.Seconds())
	return time.Duration(min(pause, p.cfg.Max.Seconds()) * float64(time.Second)), trend
}
