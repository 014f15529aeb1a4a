package coords

import (
	"maps"
	"math"
	"slices"
)

const (
	// LearnerSubnets is the number of subnets that a Learner of a peer remembers.
	LearnerSubnets = 512
	// LearnerPerSubnet is the number of latest downloads remembered per subnet.
	LearnerPerSubnet = 5
	// varianceLeast is the least variance that a peer publishes.
	varianceLeast = 1e-6
)

// Learner learns the Traits of one peer from its own downloads and from what the owners of
// subnets publish of their servers.
//
// A Learner is not safe for concurrent use.
type Learner struct {
	subnets int
	memory  map[string]*subnetMemory
	clock   uint64 // counts observations: the age of a subnetMemory
}

// subnetMemory is what a peer remembers of one subnet. Times are in ms.
type subnetMemory struct {
	firsts, bodies, kbs []float64 // of the latest downloads, oldest first
	rtt                 float64   // shortest handshake; 0: none
	server              *Proxy    // nil: not known
	last                uint64    // Learner.clock at the last download
}

// NewLearner returns a Learner that remembers a number of subnets; the one without a download for
// the longest time is dropped.
func NewLearner(subnets int) *Learner {
	return &Learner{subnets: subnets, memory: make(map[string]*subnetMemory)}
}

// Observe processes a download that the peer itself made from a server of the subnet. Failures,
// connections without a download and malformed samples are ignored.
func (l *Learner) Observe(subnet string, s Sample) {
	if s.Failed || s.HandshakeOnly() || !inBounds(s) {
		return
	}
	m := l.memoryOf(subnet)
	l.clock++
	m.last = l.clock
	if rtt := millis(s.Connect); !s.Reused && rtt > 0 && (m.rtt == 0 || rtt < m.rtt) {
		m.rtt = rtt
	}
	m.firsts = append(m.firsts, millis(s.FirstByte))
	m.bodies = append(m.bodies, millis(s.Body))
	m.kbs = append(m.kbs, s.kb())
	if len(m.firsts) > LearnerPerSubnet {
		m.firsts, m.bodies, m.kbs = m.firsts[1:], m.bodies[1:], m.kbs[1:]
	}
}

// inBounds reports whether the times and the size of s are within those of Sample.Validate.
func inBounds(s Sample) bool {
	s.Peer, s.At = "self", Coordinate{Vec: []float64{0}}
	return s.Validate(1) == nil
}

// ObserveServer records what the owner of a subnet publishes of its servers. p must be valid
// (Proxy.Validate). Subnets from which the peer did not download are ignored.
func (l *Learner) ObserveServer(subnet string, p Proxy) {
	if m, ok := l.memory[subnet]; ok {
		m.server = &p
	}
}

// Subnets returns the remembered subnets, sorted. ObserveServer is useful only for these.
func (l *Learner) Subnets() []string { return slices.Sorted(maps.Keys(l.memory)) }

// memoryOf returns the memory of a subnet. If the subnet is new it drops the oldest one when the
// memory is full.
func (l *Learner) memoryOf(subnet string) *subnetMemory {
	if m, ok := l.memory[subnet]; ok {
		return m
	}
	if len(l.memory) >= l.subnets {
		oldest := ""
		for s, m := range l.memory {
			if o := l.memory[oldest]; o == nil || m.last < o.last {
				oldest = s
			}
		}
		delete(l.memory, oldest)
	}
	m := new(subnetMemory)
	l.memory[subnet] = m
	return m
}

// Traits returns the traits that the peer should publish (assign.Candidate.Traits): estimates from
// its own downloads alone, which readers compare with those of other peers (Population). It
// returns nil if no owner has published a server from which the peer downloaded.
func (l *Learner) Traits() *Traits {
	var lags, rates []Normal
	for _, subnet := range l.Subnets() { // sums depend on the order
		m := l.memory[subnet]
		if m.server == nil || m.rtt == 0 {
			continue
		}
		lags = append(lags, m.lag())
		if rate, ok := m.rate(); ok {
			rates = append(rates, rate)
		}
	}
	if len(lags) == 0 {
		return nil
	}
	t := Traits{Lag: robustMean(lags), PerKB: Normal{Variance: traitMax * traitMax}}
	if len(rates) > 0 {
		t.PerKB = robustMean(rates)
	}
	return &t
}

// uncertainty returns the variance of a mean of n downloads relative to the squared value. The
// published value is as uncertain as that of priorCount downloads.
func uncertainty(n int) float64 { return noisePrior * (1/float64(n) + 1/priorCount) }

// lag returns by how much the peer's time to the first byte exceeds that of others.
func (m *subnetMemory) lag() Normal {
	delay := m.server.Delay
	return Normal{
		Mean:     lowerMedian(m.firsts) - m.rtt - delay,
		Variance: uncertainty(len(m.firsts))*delay*delay + shortTrip*shortTrip,
	}
}

// rate returns by how much the peer's time per kB exceeds that of others. It returns false if
// there were no bytes.
func (m *subnetMemory) rate() (Normal, bool) {
	took, usual, kb := 0.0, 0.0, 0.0
	for i, x := range m.bodies {
		took += x
		usual += (m.server.Scale-1)*m.rtt + m.server.PerKB*m.kbs[i]
		kb += m.kbs[i]
	}
	if kb <= 0 {
		return Normal{}, false
	}
	usual /= kb
	return Normal{
		Mean:     took/kb - usual,
		Variance: max(uncertainty(len(m.bodies))*usual*usual, varianceLeast),
	}, true
}

// robustMean returns the mean of estimates under a Student-t loss, so that single wrong ones count
// little. If they differ by more than their variances explain, it is less certain by as much.
// all must not be empty.
func robustMean(all []Normal) Normal {
	means := make([]float64, len(all))
	for i, x := range all {
		means[i] = x.Mean
	}
	mean := Normal{Mean: lowerMedian(means)}
	for range 5 {
		weight, sum, square := 0.0, 0.0, 0.0
		for _, x := range all {
			off := (x.Mean - mean.Mean) / math.Sqrt(x.Variance)
			w := studentWeight(off) / x.Variance
			weight += w
			sum += w * x.Mean
			square += studentWeight(off) * off * off
		}
		mean = Normal{Mean: sum / weight, Variance: max(1, square/float64(len(all))) / weight}
	}
	return Normal{Mean: rounded(clamp(mean.Mean, -traitMax, traitMax)),
		Variance: rounded(clamp(mean.Variance, varianceLeast, traitMax*traitMax))}
}

// rounded keeps the first eleven significant bits, as many as a 16 bit float has, which often takes
// three bytes on the wire.
func rounded(x float64) float64 {
	const drop = 52 - 10
	return math.Float64frombits(math.Float64bits(x) &^ (1<<drop - 1))
}
