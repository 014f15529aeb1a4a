package crawlsim

import (
	"math"
	"math/rand/v2"
	"time"

	"peerd/coords"
)

const (
	// warm is how long a connection stays open without a request (as in crawl/fetch).
	warm = 30 * time.Second
	// failure is the duration of a failed download.
	failure = 3 * time.Second
	// maxKB bounds the size of a page.
	maxKB = 2000
)

// dice returns the random source of one attempt to fetch one page. It does not depend on the
// fetching peer, so that all strategies have the same pages.
func (s *Sim) dice(n *Subnet, page int) *rand.Rand {
	return rand.New(rand.NewPCG(s.cfg.Seed^0x9e3779b97f4a7c15*uint64(n.Server+1),
		uint64(page)<<8|uint64(n.tries&0xff)))
}

// fetch lets a peer fetch a page of a subnet. It calls done with the sample at the end.
func (s *Sim) fetch(who int, n *Subnet, page int, done func(coords.Sample, Download)) {
	p, w := s.peers[who], &s.world.Servers[n.Server]
	s.take(p, func(waited time.Duration) {
		start := s.clock.now
		dice := s.dice(n, page)
		kb := min(w.KB*math.Exp(0.6*dice.NormFloat64()-0.18), maxKB) // 0.18: so that KB is the mean
		moody := math.Exp(0.3 * dice.NormFloat64())
		late, fails := dice.IntN(50) == 0, dice.Float64()
		jitter, lag := dice.Float64(), 0.7+0.6*dice.Float64()

		link := s.world.Path(who, n.Server)
		rtt := link.RTT + time.Duration(jitter*float64(link.Jitter))
		busy := time.Duration(lag * float64(p.Lag+p.extra+p.spell))
		sample := coords.Sample{Peer: p.Name, At: p.est.Coordinate(), Bytes: int64(kb * 1000)}
		if last, ok := n.conns[who]; ok && s.clock.now-last < warm {
			sample.Reused = true
		} else {
			sample.Connect = rtt
		}
		sample.FirstByte = rtt + time.Duration(moody*float64(w.Delay)) + n.extra + busy
		if late {
			sample.FirstByte += time.Second
		}
		end := func() {
			s.free(p)
			sample.Taken = base.Add(s.clock.now)
			d := Download{Server: n.Server, Peer: who, Page: page, At: start,
				Took: s.clock.now - start, Waited: waited, Bytes: sample.Bytes,
				Failed: sample.Failed}
			if sample.Failed {
				d.Bytes, sample.Bytes = 0, 0
			} else {
				sample.Body = d.Took - sample.Connect - sample.FirstByte
				n.conns[who] = s.clock.now
			}
			if s.cfg.Traits > 0 {
				p.learner.Observe(s.names[n.Server], sample)
				p.news = true
			}
			done(sample, d)
		}
		if fails < p.Fails {
			sample.Failed = true
			s.clock.after(failure, end)
			return
		}
		first := sample.Connect + sample.FirstByte + time.Duration(w.Turns*float64(rtt)) +
			time.Duration(kb*1000/w.Bps*float64(time.Second))
		s.clock.after(first, func() { p.line.start(&s.clock, kb*1000, end) })
	})
}

// connect lets a peer open and close a connection to a subnet.
func (s *Sim) connect(who int, n *Subnet, done func(coords.Sample)) {
	p := s.peers[who]
	link := s.world.Path(who, n.Server)
	rtt := link.RTT + time.Duration(s.rng.Float64()*float64(link.Jitter))
	s.clock.after(rtt, func() {
		done(coords.Sample{Peer: p.Name, At: p.est.Coordinate(), Connect: rtt,
			Taken: base.Add(s.clock.now)})
	})
}
