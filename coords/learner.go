package coords

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// LearnerConfig holds the parameters of a Learner.
type LearnerConfig struct {
	// Subnets is how many subnets it remembers; the one without a download for
	// the longest time leaves. In [1, 65536].
	Subnets int
	// PerSubnet is how many of the last downloads of a subnet it remembers. In
	// [1, 64].
	PerSubnet int
	// Sweeps is how often Traits goes over the memory. In [1, 64].
	Sweeps int
}

// DefaultLearnerConfig returns the parameters of the network.
func DefaultLearnerConfig() LearnerConfig {
	return LearnerConfig{Subnets: 512, PerSubnet: 5, Sweeps: 1}
}

// Validate names every field that is out of its range.
func (c LearnerConfig) Validate() error {
	var errs []error
	check := func(ok bool, name string, value, most int) {
		if !ok {
			errs = append(errs, fmt.Errorf("coords: %s is %d, want 1 to %d", name, value, most))
		}
	}
	check(c.Subnets >= 1 && c.Subnets <= 1<<16, "Subnets", c.Subnets, 1<<16)
	check(c.PerSubnet >= 1 && c.PerSubnet <= 64, "PerSubnet", c.PerSubnet, 64)
	check(c.Sweeps >= 1 && c.Sweeps <= 64, "Sweeps", c.Sweeps, 64)
	return errors.Join(errs...)
}

// Learner learns the Traits of one peer from the downloads that it made itself
// and from what the owners publish of the servers (Proxy.Traits). Together with
// the owners' fits (LocateTraits) this is alternating least squares without a
// centre: each side solves its own small problem with what the other published.
//
// It is not safe for concurrent use: one owner.
type Learner struct {
	cfg    LearnerConfig
	id     string
	memory map[string]*recollection
	clock  uint64 // counts observations: the age of a recollection
	now    peerView
	others population
}

// recollection is what a peer remembers of one subnet.
type recollection struct {
	times  []float64 // log ms, oldest first, failures as FailedTime
	failed int
	told   Traits // of the server; nil: nothing yet
	last   uint64 // by the learner's clock
}

// NewLearner returns a Learner for the peer of that name. It starts from small
// loadings that follow from the name, so that not all peers are alike. The
// error is that of cfg.Validate, or ErrPeer.
func NewLearner(cfg LearnerConfig, id string) (*Learner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if id == "" {
		return nil, ErrPeer
	}
	l := &Learner{cfg: cfg, id: id, memory: make(map[string]*recollection), others: everybody()}
	l.now = freshPeer(id)
	return l, nil
}

// Observe takes a download of the peer's own from a server of the subnet.
// Malformed samples are passed over.
func (l *Learner) Observe(subnet string, s Sample) {
	r := l.recall(subnet)
	l.clock++
	r.last = l.clock
	if s.Failed {
		r.failed = min(r.failed+1, l.cfg.PerSubnet)
		r.add(LogTime(FailedTime), l.cfg.PerSubnet)
		return
	}
	took := s.FirstByte + s.Body
	if took <= 0 || took > 2*sampleTimeMax {
		return
	}
	r.add(LogTime(took), l.cfg.PerSubnet)
}

// add remembers a time in place of the oldest one.
func (r *recollection) add(x float64, most int) {
	r.times = append(r.times, x)
	if n := len(r.times) - most; n > 0 {
		r.times = slices.Delete(r.times, 0, n)
	}
}

// FailedTime is what a failed download counts for in the factor model: who does
// not get through to one server will not to those that are like it. It is the
// order of time-outs.
const FailedTime = 20 * time.Second

// LogTime is the scale on which traits add up: the logarithm of ms.
func LogTime(d time.Duration) float64 { return math.Log(millis(max(d, 0)) + logFloor) }

// Told takes what the owner of a subnet publishes of its servers. Subnets that
// the peer did not download from, and malformed traits, are passed over.
func (l *Learner) Told(subnet string, p Proxy) {
	r, ok := l.memory[subnet]
	if !ok {
		return
	}
	if _, ok := unpackHost(p.Traits); ok {
		r.told = slices.Clone(p.Traits)
	}
}

// Forget drops a subnet.
func (l *Learner) Forget(subnet string) { delete(l.memory, subnet) }

// Subnets returns the subnets that it remembers, sorted: those of which Told is
// of use.
func (l *Learner) Subnets() []string {
	out := make([]string, 0, len(l.memory))
	for s := range l.memory {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// recall returns the memory of a subnet, making room for it.
func (l *Learner) recall(subnet string) *recollection {
	if r, ok := l.memory[subnet]; ok {
		return r
	}
	if len(l.memory) >= l.cfg.Subnets {
		oldest := ""
		for s, r := range l.memory {
			if o := l.memory[oldest]; o == nil || r.last < o.last {
				oldest = s
			}
		}
		delete(l.memory, oldest)
	}
	r := new(recollection)
	l.memory[subnet] = r
	return r
}

// Traits works out what the memory says and returns what the peer should
// publish of itself (assign.Candidate.Traits).
func (l *Learner) Traits() Traits {
	l.learn()
	return l.now.pack()
}

// LearnerState is what a Learner remembers, for the disk.
type LearnerState struct {
	Subnets []SubnetState `cbor:"1,keyasint"`
	Now     Traits        `cbor:"2,keyasint"`
}

// SubnetState is what a Learner remembers of one subnet. They are kept in the
// order of the last download, oldest first.
type SubnetState struct {
	Subnet string    `cbor:"1,keyasint"`
	Times  []float64 `cbor:"2,keyasint"` // logarithms, as LogTime has them
	Failed int       `cbor:"3,keyasint"`
	Told   Traits    `cbor:"4,keyasint,omitempty"`
}

// Snapshot returns the state; it shares nothing with l.
func (l *Learner) Snapshot() LearnerState {
	names := l.Subnets()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(l.memory[a].last, l.memory[b].last) })
	state := LearnerState{Now: l.now.pack()}
	for _, name := range names {
		r := l.memory[name]
		state.Subnets = append(state.Subnets, SubnetState{
			Subnet: name, Times: slices.Clone(r.times), Failed: r.failed, Told: slices.Clone(r.told),
		})
	}
	return state
}

// Restore takes a state in place of what l remembers. What is out of bounds is
// passed over, so that a damaged state costs knowledge and nothing else.
func (l *Learner) Restore(state LearnerState) {
	clear(l.memory)
	l.now = freshPeer(l.id)
	if p, ok := unpackPeer(state.Now); ok {
		l.now = p
	}
	for _, s := range state.Subnets {
		r := l.recall(s.Subnet)
		l.clock++
		r.last = l.clock
		r.failed = min(max(0, s.Failed), l.cfg.PerSubnet)
		for _, x := range s.Times {
			if math.Abs(x) <= levelMax && len(r.times) < l.cfg.PerSubnet {
				r.times = append(r.times, x)
			}
		}
		if _, ok := unpackHost(s.Told); ok {
			r.told = slices.Clone(s.Told)
		}
	}
}
