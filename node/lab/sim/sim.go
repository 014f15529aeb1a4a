package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// Config says what is simulated.
type Config struct {
	World *World
	Seed  uint64
	// Strategy makes that of a peer.
	Strategy func(self string) (assign.Strategy, error)
	// Watch says how decided subnets are watched; nil does not. Only strategies
	// that are Reviewers move them.
	Watch *assign.WatchConfig
	// Pages is how many each server has; 0 is as many as there is time for, which
	// wants an End.
	Pages int
	// Assigned is how many pages are fetched of each server after the decision,
	// if it is not 0; Pages then bounds those before it.
	Assigned int
	// Gap is the least time between two requests to a server, and Pace how many
	// download times it is at least, up to PaceMax.
	Gap     time.Duration
	Pace    float64
	PaceMax time.Duration
	// Workers is how many downloads a peer makes at a time.
	Workers int
	// WarmUp is how long peers gossip before the first server is found, and
	// FoundWithin how long it takes until the last is.
	WarmUp, FoundWithin time.Duration
	// End is when the simulation stops; 0 is when all is crawled.
	End time.Duration
	// Samples is how many downloads of a subnet are remembered.
	Samples int
	// Directory is how many peers a peer knows at most, itself included.
	Directory int
	// Traits is how often peers work out their traits and tell them; 0 is never.
	Traits time.Duration
	// Finder says which peer finds a server; nil is any.
	Finder func(server int) int
}

// Default returns a Config that lacks World and Strategy. The figures are the
// defaults of the peers.
func Default() Config {
	watch := assign.DefaultWatch()
	return Config{
		Watch: &watch, Pages: 50, Gap: time.Second, Pace: 10, PaceMax: time.Minute, Workers: 64,
		WarmUp: 3 * time.Minute, FoundWithin: time.Minute, Samples: 64, Directory: 192,
		Traits: 10 * time.Second,
	}
}

func (c Config) validate() error {
	switch {
	case c.World == nil || len(c.World.Peers) == 0 || len(c.World.Servers) == 0:
		return errors.New("sim: a world without peers or servers")
	case c.Strategy == nil:
		return errors.New("sim: no strategy")
	case c.Pages <= 0 && c.End <= 0:
		return errors.New("sim: neither a number of pages nor an end")
	case c.Workers < 1 || c.Samples < 1 || c.Directory < 8:
		return fmt.Errorf("sim: Workers %d, Samples %d, Directory %d, want at least 1, 1 and 8", c.Workers, c.Samples, c.Directory)
	}
	return nil
}

// Sim is one simulation.
type Sim struct {
	cfg      Config
	world    *World
	clock    clock
	rng      *rand.Rand
	peers    []*peer
	nets     []*Subnet
	byName   map[string]int
	bySubnet map[string]int
	names    []string           // of the subnets
	shown    []assign.Candidate // what the beacons that have arrived say
	asked    []assign.Candidate // room for those of one decision
	open     int                // subnets with pages left
	downs    []Download
	counts   Counts
	err      error
}

// Counts are what happened so far.
type Counts struct {
	Events uint64
	// Exchanges are round trips measured between peers, Beacons sent.
	Exchanges, Beacons int
	// Decisions are calls of a strategy's Next, Reviews of its Review.
	Decisions, Reviews int
	// Estimations are pages fetched by others on an owner's behalf: before the
	// decision, and as scouts after it. Connects are probes without a page.
	Estimations, Scouts, Connects int
	// Handovers are subnets that changed owner by a first decision, Moves by a
	// later one.
	Handovers, Moves int
	// Pages were fetched, GivenUp failed too often. Failed counts attempts.
	Pages, GivenUp, Failed int
	Bytes                  int64
}

// Download is one attempt to fetch a page.
type Download struct {
	Server, Peer, Page int
	At, Took, Waited   time.Duration
	Bytes              int64
	// Probe says that it was made before the subnet was decided on, Scout that
	// it was made by another than the owner after it.
	Probe, Scout, Failed bool
}

// New prepares a simulation.
func New(cfg Config) (*Sim, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sim{
		cfg: cfg, world: cfg.World, rng: rand.New(rand.NewPCG(cfg.Seed, 0x51)),
		byName: make(map[string]int, len(cfg.World.Peers)), bySubnet: make(map[string]int, len(cfg.World.Servers)),
	}
	for i := range s.world.Peers {
		p, err := s.newPeer(i)
		if err != nil {
			return nil, err
		}
		s.peers = append(s.peers, p)
		s.byName[p.Name] = i
		s.shown = append(s.shown, assign.Candidate{ID: p.Name, Addr: p.Addr, Capacity: 1, At: p.est.Coordinate()})
	}
	for i, w := range s.world.Servers {
		s.names = append(s.names, w.Subnet.String())
		s.bySubnet[s.names[i]] = i
	}
	for i := range s.peers {
		s.meet(i)
	}
	for i := range s.world.Servers {
		s.find(i)
	}
	return s, nil
}

// Run runs until the end. progress, if not nil, is told the share that is done
// now and then. The error is ctx's, or says why the simulation broke.
func (s *Sim) Run(ctx context.Context, progress func(share float64)) error {
	end := s.cfg.End
	if end == 0 {
		end = 1 << 62
	}
	for s.err == nil && (s.open > 0 || s.cfg.End > 0) && s.clock.next(end) {
		if s.clock.done%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			if progress != nil {
				progress(s.share())
			}
		}
	}
	s.counts.Events = s.clock.done
	if s.err == nil && s.open > 0 && s.cfg.End == 0 {
		return fmt.Errorf("sim: %d subnets are stuck", s.open)
	}
	return s.err
}

// share is how far it is.
func (s *Sim) share() float64 {
	if s.cfg.End > 0 {
		return float64(s.clock.now) / float64(s.cfg.End)
	}
	each := s.cfg.Pages
	if s.cfg.Assigned > 0 {
		each = s.cfg.Assigned
	}
	return min(1, float64(s.counts.Pages+s.counts.GivenUp)/float64(each*len(s.nets)))
}

// At has f called at a time, to change something or to look.
func (s *Sim) At(t time.Duration, f func()) { s.clock.at(t, f) }

// Now is the virtual time since the start.
func (s *Sim) Now() time.Duration { return s.clock.now }

// Counts returns what happened so far.
func (s *Sim) Counts() Counts {
	c := s.counts
	c.Events = s.clock.done
	return c
}

// Downloads returns all so far, in the order of their ends. They belong to s.
func (s *Sim) Downloads() []Download { return s.downs }

// Open is how many subnets are not decided on.
func (s *Sim) Open() (n int) {
	for _, x := range s.nets {
		if !x.Decided {
			n++
		}
	}
	return n
}

// Evidence is what the owner of a subnet would decide on now. Its candidates are
// good until the simulation goes on.
func (s *Sim) Evidence(n *Subnet) assign.Evidence { return s.evidence(n) }

// Subnets returns all, by server. They belong to s.
func (s *Sim) Subnets() []*Subnet { return s.nets }

// Coordinate returns where a peer believes to be.
func (s *Sim) Coordinate(peer int) coords.Coordinate { return s.peers[peer].est.Coordinate() }

// Slow makes a peer's bandwidth the share of what it was at the start, and adds
// to its lag.
func (s *Sim) Slow(peer int, bandwidth float64, lag time.Duration) {
	p := s.peers[peer]
	p.extra = lag
	p.line.set(&s.clock, p.Bps*bandwidth)
}

// Delay adds to a server's delay.
func (s *Sim) Delay(server int, by time.Duration) { s.nets[server].extra = by }

// Expected is what a page of typical size takes a peer now that has the line
// for itself and no spell of overload, over a warm connection: the truth that
// strategies guess at.
func (s *Sim) Expected(peer, server int) time.Duration {
	p, w := s.peers[peer], &s.world.Servers[server]
	rtt := s.world.toServer(peer, server).MeanRTT().Seconds()
	t := rtt*(1+w.Turns) + (w.Delay + s.nets[server].extra + p.Lag + p.extra).Seconds() + w.KB*1000*(1/w.Bps+1/p.line.bps)
	return time.Duration(t * float64(time.Second))
}

// base is the time of day that virtual time counts from: samples carry one.
var base = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
