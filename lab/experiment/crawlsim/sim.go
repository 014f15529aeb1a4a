package crawlsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// Config holds the parameters of a simulation.
type Config struct {
	World *World
	Seed  uint64
	// Strategy returns the strategy of a peer.
	Strategy func(self string) (assign.Strategy, error)
	// Watch configures how decided subnets are reviewed; nil means never. Only strategies that
	// are Reviewers move subnets.
	Watch *assign.ReviewConfig
	// Pages is the number of pages of each server; 0 means unlimited, which requires End.
	Pages int
	// Assigned, if not 0, is the number of pages that are fetched from each server after the
	// decision; Pages then bounds those before it.
	Assigned int
	// Gap is the least time between two requests to a server. Pace is the least time as a
	// multiple of the download time, up to PaceMax.
	Gap     time.Duration
	Pace    float64
	PaceMax time.Duration
	// Workers is the number of simultaneous downloads of a peer.
	Workers int
	// WarmUp is how long peers gossip before the first server is found, FoundWithin how long
	// after that the last server is found.
	WarmUp, FoundWithin time.Duration
	// End is when the simulation stops; 0 means when all pages are crawled.
	End time.Duration
	// Samples is the number of stored downloads of a subnet.
	Samples int
	// Directory is the maximum number of peers that a peer knows, itself included.
	Directory int
	// Traits is the interval at which peers update and publish their traits; 0 means never.
	Traits time.Duration
	// Finder returns the peer that finds a server; nil means a random peer.
	Finder func(server int) int
	// Fetcher returns the peer that fetches the next page of a decided subnet; nil means its
	// owner, or a scout.
	Fetcher func(n *Subnet) int
}

// Default returns a Config without World and Strategy. Its values are the defaults of the
// peers.
func Default() Config {
	watch := assign.DefaultReviewConfig()
	return Config{
		Watch: &watch, Pages: 50, Gap: time.Second, Pace: 10, PaceMax: time.Minute, Workers: 64,
		WarmUp: 3 * time.Minute, FoundWithin: time.Minute, Samples: assign.HistorySize,
		Directory: 192, Traits: 10 * time.Second,
	}
}

func (c Config) validate() error {
	switch {
	case c.World == nil || len(c.World.Peers) == 0 || len(c.World.Servers) == 0:
		return errors.New("sim: a world without peers or servers")
	case c.Strategy == nil:
		return errors.New("sim: no strategy")
	case c.Pages <= 0 && c.End <= 0:
		return errors.New("sim: want Pages or End")
	case c.Workers < 1 || c.Samples < 1 || c.Directory < 8:
		return fmt.Errorf("sim: Workers %d, Samples %d, Directory %d, want at least 1, 1 and 8",
			c.Workers, c.Samples, c.Directory)
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
	names    []string           // of subnets
	shown    []assign.Candidate // by peer, as in its last received beacon
	trips    [][]coords.Trip    // by peer, likewise
	asked    []assign.Candidate // buffer for one decision
	open     int                // subnets with pages left
	downs    []Download
	counts   Counts
	err      error
}

// Counts are numbers of events so far.
type Counts struct {
	Events uint64
	// Exchanges is the number of round trips measured between peers, Beacons the number of
	// beacons sent.
	Exchanges, Beacons int
	// Decisions is the number of calls of a strategy's Next, Reviews of its Review.
	Decisions, Reviews int
	// Estimations is the number of pages that other peers fetched for an owner before the
	// decision, Scouts after it. Connects is the number of probes without a page.
	Estimations, Scouts, Connects int
	// Handovers is the number of subnets that changed owner by their first decision, Moves by a
	// later one.
	Handovers, Moves int
	// Pages is the number of fetched pages, GivenUp of pages that failed too often, Failed of
	// failed attempts.
	Pages, GivenUp, Failed int
	Bytes                  int64
}

// Download is one attempt to fetch a page.
type Download struct {
	Server, Peer, Page int
	At, Took, Waited   time.Duration
	Bytes              int64
	// Probe reports that the download was made before the decision on the subnet, Scout that
	// another peer than the owner made it after the decision.
	Probe, Scout, Failed bool
}

// New prepares a simulation.
func New(cfg Config) (*Sim, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Sim{
		cfg: cfg, world: cfg.World, rng: rand.New(rand.NewPCG(cfg.Seed, 0x51)),
		byName: make(map[string]int, len(cfg.World.Peers)), bySubnet: make(map[string]int,
			len(cfg.World.Servers)),
	}
	for i := range s.world.Peers {
		p, err := s.newPeer(i)
		if err != nil {
			return nil, err
		}
		s.peers = append(s.peers, p)
		s.byName[p.Name] = i
		s.shown = append(s.shown, assign.Candidate{ID: p.Name, Addr: p.Addr, Capacity: 1,
			At: p.est.Coordinate(), Traits: p.traits})
	}
	s.trips = make([][]coords.Trip, len(s.peers))
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

// Run runs the simulation until its end. progress, if not nil, is called now and then with the
// finished share. The error is that of ctx, or describes an internal failure.
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

// share returns the finished share.
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

// At calls f at a time, for changes or observations.
func (s *Sim) At(t time.Duration, f func()) { s.clock.at(t, f) }

// Now returns the virtual time since the start.
func (s *Sim) Now() time.Duration { return s.clock.now }

// Counts returns the numbers of events so far.
func (s *Sim) Counts() Counts {
	c := s.counts
	c.Events = s.clock.done
	return c
}

// Downloads returns all downloads so far, ordered by their ends. The slice belongs to s.
func (s *Sim) Downloads() []Download { return s.downs }

// Open returns the number of undecided subnets.
func (s *Sim) Open() (n int) {
	for _, x := range s.nets {
		if !x.Decided {
			n++
		}
	}
	return n
}

// Evidence returns the evidence on which the owner of a subnet would decide now. Its candidates
// are valid until the simulation continues.
func (s *Sim) Evidence(n *Subnet) assign.Evidence { return s.evidence(n) }

// Subnets returns all subnets, by server. The slice belongs to s.
func (s *Sim) Subnets() []*Subnet { return s.nets }

// Coordinate returns the coordinate that a peer has estimated for itself.
func (s *Sim) Coordinate(peer int) coords.Coordinate { return s.peers[peer].est.Coordinate() }

// Slow sets a peer's bandwidth to a share of its initial value, and its additional lag.
func (s *Sim) Slow(peer int, bandwidth float64, lag time.Duration) {
	p := s.peers[peer]
	p.extra = lag
	p.line.set(&s.clock, p.Bps*bandwidth)
}

// Delay sets the additional delay of a server.
func (s *Sim) Delay(server int, by time.Duration) { s.nets[server].extra = by }

// Expected returns the time of a page of typical size at a peer now, without other transfers,
// without spells of overload and over an open connection: the true value that strategies
// estimate.
func (s *Sim) Expected(peer, server int) time.Duration {
	p, w := s.peers[peer], &s.world.Servers[server]
	rtt := s.world.Path(peer, server).MeanRTT().Seconds()
	t := rtt*(1+w.Turns) + (w.Delay + s.nets[server].extra + p.Lag + p.extra).Seconds() +
		w.KB*1000*(1/w.Bps+1/p.line.bps)
	return time.Duration(t * float64(time.Second))
}

// Current returns the time of a page of typical size if a peer fetched it now: Expected, and what
// is true only now: its spell of overload, its queue, its transfers in progress, and whether it
// has an open connection.
func (s *Sim) Current(peer, server int) time.Duration {
	p, w := s.peers[peer], &s.world.Servers[server]
	t := s.Expected(peer, server) + p.spell
	t += time.Duration(w.KB * 1000 / p.line.bps * float64(len(p.line.flows)) * float64(time.Second))
	if p.busy >= s.cfg.Workers {
		t += time.Duration(p.wait)
	}
	if last, ok := s.nets[server].conns[peer]; !ok || s.clock.now-last >= warm {
		t += s.world.Path(peer, server).MeanRTT()
	}
	return t
}

// base is the start of virtual time, for the times of samples.
var base = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
