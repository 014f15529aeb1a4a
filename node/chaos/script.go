package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// scenarios are what --scenario may name besides all.
var scenarios = []string{"kills", "lost", "partition", "leave", "mixed"}

// A kind is what a step does.
type kind string

const (
	kill   kind = "kill"   // kill -9
	start  kind = "start"  // of one that was killed, or has left
	lose   kind = "lose"   // kill -9, and the home is deleted
	pause  kind = "pause"  // SIGSTOP
	resume kind = "resume" // SIGCONT
	leave  kind = "leave"  // peerd stop
	cut    kind = "cut"    // nothing gets through in some directions
	heal   kind = "heal"   // of the cut with the same number
	crash  kind = "crash"  // in no script: a process ended by itself
)

// A step of a script.
type step struct {
	At    time.Duration
	Kind  kind
	Peer  int    // -1 of cut and heal
	Cut   int    // number, of cut and heal
	Pairs []pair // of cut and heal
}

// String names a step without its time.
func (s step) String() string {
	switch s.Kind {
	case cut, heal:
		var all []string
		for _, p := range s.Pairs {
			all = append(all, fmt.Sprintf("%d→%d", p.From, p.To))
		}
		if len(all) > 4 {
			all = append(all[:4], "…")
		}
		return fmt.Sprintf("%s %d (%s)", s.Kind, s.Cut, strings.Join(all, " "))
	}
	return fmt.Sprintf("%s peer %d", s.Kind, s.Peer)
}

// maker writes a script.
type maker struct {
	o     options
	rng   *rand.Rand
	steps []step
	busy  []time.Duration // until when a peer is out
	cuts  int
}

// script returns the steps of a scenario, in order. Equal options give equal
// steps. At its end every peer runs but the lost one and the one that left, and
// nothing is cut.
func script(o options, canCut bool) []step {
	m := &maker{o: o, rng: rand.New(rand.NewPCG(o.seed, uint64(slices.Index(scenarios, o.scenario)))), busy: make([]time.Duration, o.peers)}
	switch o.scenario {
	case "kills":
		m.kills()
	case "lost":
		m.add(step{At: m.within(0.2, 0.8), Kind: lose, Peer: m.rng.IntN(o.peers)})
	case "leave":
		m.add(step{At: m.within(0.2, 0.7), Kind: leave, Peer: m.rng.IntN(o.peers)})
	case "partition":
		half := m.rng.Perm(o.peers)[:o.peers/2]
		m.cut(o.length/5, min(o.cut, o.length/2), m.between(half, true))
	case "mixed":
		m.mixed(canCut)
	}
	slices.SortStableFunc(m.steps, func(a, b step) int { return int(a.At - b.At) })
	return m.steps
}

func (m *maker) add(s step) { m.steps = append(m.steps, s) }

// within draws a moment of the script, by its share.
func (m *maker) within(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*m.rng.Float64()) * float64(m.o.length))
}

// long draws how long something lasts, short times as often as long ones.
func (m *maker) long(from, to time.Duration) time.Duration {
	from = min(from, to)
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), m.rng.Float64()))
}

// next draws the moment of the next fault.
func (m *maker) next(at time.Duration) time.Duration {
	mean := min(10*time.Second, m.o.length/8)
	return at + mean/2 + time.Duration(m.rng.Int64N(int64(mean)))
}

// most is how many peers may be out at once: three of eight.
func (m *maker) most() int { return max(1, m.o.peers*3/8) }

// idle returns a random peer of some that is in at a time; false if too many
// are out already, or all of them.
func (m *maker) idle(of []int, at time.Duration) (int, bool) {
	out := 0
	for _, until := range m.busy {
		if until >= at {
			out++
		}
	}
	in := slices.DeleteFunc(slices.Clone(of), func(i int) bool { return m.busy[i] >= at })
	if out >= m.most() || len(in) == 0 {
		return 0, false
	}
	return in[m.rng.IntN(len(in))], true
}

// out takes a peer out, and back in some time later.
func (m *maker) out(peer int, at, last time.Duration, down, up kind) {
	until := min(at+last, m.o.length)
	m.add(step{At: at, Kind: down, Peer: peer})
	m.add(step{At: until, Kind: up, Peer: peer})
	m.busy[peer] = until
}

func (m *maker) kills() {
	victims := m.rng.Perm(m.o.peers)[:m.most()]
	for at := m.next(0); at < m.o.length; at = m.next(at) {
		if i, ok := m.idle(victims, at); ok {
			m.out(i, at, m.long(time.Second, m.o.down), kill, start)
		}
	}
}

// between are the directions between some peers and all others: both ways, or
// only out of them.
func (m *maker) between(some []int, both bool) []pair {
	var ps []pair
	for a := range m.o.peers {
		for b := range m.o.peers {
			if in, to := slices.Contains(some, a), slices.Contains(some, b); in != to && (both || in) {
				ps = append(ps, pair{a, b})
			}
		}
	}
	return ps
}

func (m *maker) cut(at, last time.Duration, ps []pair) {
	m.add(step{At: at, Kind: cut, Peer: -1, Cut: m.cuts, Pairs: ps})
	m.add(step{At: min(at+last, m.o.length), Kind: heal, Peer: -1, Cut: m.cuts, Pairs: ps})
	m.cuts++
}

// mixed draws from everything.
func (m *maker) mixed(canCut bool) {
	all := m.rng.Perm(m.o.peers)
	for at := m.next(0); at < m.o.length; at = m.next(at) {
		draw := m.rng.IntN(12)
		i, ok := m.idle(all, at)
		last := m.long(2*time.Second, m.o.down)
		switch {
		case draw < 4 && ok:
			m.out(i, at, m.long(time.Second, m.o.down), kill, start)
		case draw < 6 && ok:
			m.out(i, at, last, pause, resume)
		case draw < 7 && ok:
			m.out(i, at, m.long(5*time.Second, m.o.down), leave, start)
		case draw < 7 || !canCut:
		case draw < 11:
			a, b := all[0], all[1]
			m.rng.Shuffle(len(all), func(x, y int) { all[x], all[y] = all[y], all[x] })
			ps := []pair{{a, b}, {b, a}}
			m.cut(at, last, ps[:1+draw%2])
		default:
			m.cut(at, last, m.between([]int{m.rng.IntN(m.o.peers)}, m.rng.IntN(2) == 0))
		}
	}
}
