package pace

import (
	"fmt"
	"math"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Config tunes a Book.
type Config struct {
	// Factor times the download time is the pause; 0 turns the Book off.
	Factor float64
	// Max bounds a pause.
	Max time.Duration
	// Servers is how many servers are remembered; the longest unasked are
	// forgotten. Zero means 65,536, some 5 MB.
	Servers int
}

// Validate says what is wrong with c.
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
	// fast and slow are the weights of a new download time in the mean that
	// stands for now, and in the one that stands for how the server usually is.
	fast, slow = 0.3, 0.02
	// young is how many answers a server must have given before it is compared
	// with what it was.
	young = 8
	// apart is the weight of a server's change in the mean change of all.
	apart = 0.05
	// strained is the ratio of now to usual, our own line's part taken out,
	// from which on a server counts as overloaded; mostStrain bounds what that
	// adds.
	strained, mostStrain = 2.0, 16.0
)

// Book remembers the servers' download times. All its methods may be called
// at once.
type Book struct {
	cfg Config

	mu      sync.Mutex
	servers *lru.Cache[netip.Addr, server]
	drift   float64 // mean of log(now / usual) over all servers: our own line
}

// server holds logarithms of seconds.
type server struct {
	now, usual float64
	answers    int
}

// New makes a Book.
func New(c Config) (*Book, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Servers == 0 {
		c.Servers = 1 << 16
	}
	servers, err := lru.New[netip.Addr, server](c.Servers)
	if err != nil {
		return nil, fmt.Errorf("pace: %w", err)
	}
	return &Book{cfg: c, servers: servers}, nil
}

// Observe takes in the time of one answer and returns the pause that the
// server is due.
func (b *Book) Observe(addr netip.Addr, took time.Duration) time.Duration {
	if b.cfg.Factor == 0 || took <= 0 {
		return 0
	}
	t := math.Log(took.Seconds())
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.servers.Get(addr)
	if known {
		s.now += fast * (t - s.now)
		s.usual += slow * (t - s.usual)
	} else {
		s.now, s.usual = t, t
	}
	s.answers++
	strain := 1.0
	if s.answers > young {
		change := s.now - s.usual
		if e := math.Exp(change - max(b.drift, 0)); e > strained {
			strain = min(e, mostStrain)
		}
		b.drift += apart * (min(max(change, -1), 1) - b.drift)
	}
	b.servers.Add(addr, s)
	pause := b.cfg.Factor * strain * max(math.Exp(s.now), took.Seconds())
	return time.Duration(min(pause, b.cfg.Max.Seconds()) * float64(time.Second))
}
