package coords

import (
	"math"
	"slices"
	"time"
)

const (
	// LearnerSubnets is the number of subnets that a Learner of a peer remembers.
	LearnerSubnets = 512
	// LearnerPerSubnet is the number of latest downloads remembered per subnet.
	LearnerPerSubnet = 5
)

// Learner learns the Traits of one peer from its own downloads and from what the owners
// of subnets publish of their servers (Proxy.Traits). Together with the owners' fits
// (LocateTraits) this is alternating least squares without a central node: each side
// solves its own small problem with what the other side published.
//
// A Learner is not safe for concurrent use.
type Learner struct {
	subnets int
	id      string
	memory  map[string]*subnetMemory
	clock   uint64 // counts observations: the age of a subnetMemory
	own     peerView
	prior   population
}

// subnetMemory is what a peer remembers of one subnet.
type subnetMemory struct {
	times  []float64 // log ms, oldest first, failures as FailedTime
	failed int
	server Traits // traits of the server; nil: not known
	last   uint64 // Learner.clock at the last download
}

// NewLearner returns a Learner for the peer with the given name. It remembers a number of subnets;
// the one without a download for the longest time is dropped. It starts from small
// loadings derived from the name, so that peers differ.
func NewLearner(id string, subnets int) *Learner {
	return &Learner{subnets: subnets, id: id, memory: make(map[string]*subnetMemory),
		own: initialPeer(id), prior: defaultPopulation()}
}

// Observe processes a download that the peer itself made from a server of the subnet.
// Malformed samples are ignored.
func (l *Learner) Observe(subnet string, s Sample) {
	r := l.memoryOf(subnet)
	l.clock++
	r.last = l.clock
	if s.Failed {
		r.failed = min(r.failed+1, LearnerPerSubnet)
		r.add(LogTime(FailedTime), LearnerPerSubnet)
		return
	}
	took := s.FirstByte + s.Body
	if took <= 0 || took > 2*sampleTimeMax {
		return
	}
	r.add(LogTime(took), LearnerPerSubnet)
}

// add appends a time and drops the oldest one beyond limit.
func (r *subnetMemory) add(x float64, limit int) {
	r.times = append(r.times, x)
	if n := len(r.times) - limit; n > 0 {
		r.times = slices.Delete(r.times, 0, n)
	}
}

// FailedTime is the time that a failed download is treated as in the factor model: a
// peer that fails at one server is likely to fail at similar ones. It is of the order of
// a time-out.
const FailedTime = 20 * time.Second

// LogTime returns the logarithm of d in milliseconds, the scale on which traits add up.
func LogTime(d time.Duration) float64 { return math.Log(millis(max(d, 0)) + rttFloor) }

// ObserveServer records what the owner of a subnet publishes of its servers. Malformed
// traits, and subnets from which the peer did not download, are ignored.
func (l *Learner) ObserveServer(subnet string, p Proxy) {
	r, ok := l.memory[subnet]
	if !ok {
		return
	}
	if _, ok := unpackHost(p.Traits); ok {
		r.server = slices.Clone(p.Traits)
	}
}

// Subnets returns the remembered subnets, sorted. ObserveServer is useful only for
// these.
func (l *Learner) Subnets() []string {
	out := make([]string, 0, len(l.memory))
	for s := range l.memory {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}

// memoryOf returns the memory of a subnet. If the subnet is new it drops the oldest one
// when the memory is full.
func (l *Learner) memoryOf(subnet string) *subnetMemory {
	if r, ok := l.memory[subnet]; ok {
		return r
	}
	if len(l.memory) >= l.subnets {
		oldest := ""
		for s, r := range l.memory {
			if o := l.memory[oldest]; o == nil || r.last < o.last {
				oldest = s
			}
		}
		delete(l.memory, oldest)
	}
	r := new(subnetMemory)
	l.memory[subnet] = r
	return r
}

// Traits fits the peer's traits to its memory and returns those that the peer should
// publish (assign.Candidate.Traits).
func (l *Learner) Traits() Traits {
	l.learn()
	return l.own.pack()
}
