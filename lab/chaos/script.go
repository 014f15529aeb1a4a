package chaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Scenarios are the values of Options.Scenario other than "all".
var Scenarios = []string{"kills", "lost", "partition", "leave", "mixed"}

// A kind is the action of a step.
type kind string

const (
	kill   kind = "kill"   // SIGKILL
	start  kind = "start"  // after kill or leave
	lose   kind = "lose"   // SIGKILL and deletion of the home directory
	pause  kind = "pause"  // SIGSTOP
	resume kind = "resume" // SIGCONT
	leave  kind = "leave"  // peerd stop
	cut    kind = "cut"    // drop all packets in some directions
	heal   kind = "heal"   // end the cut with the same number
	crash  kind = "crash"  // never in a script: a process exited unexpectedly
)

// A step of a script.
type step struct {
	At    time.Duration
	Kind  kind
	Peer  int    // -1 for cut and heal
	Cut   int    // number of the cut, for cut and heal
	Pairs []pair // for cut and heal
}

// String describes a step without its time.
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

// scriptBuilder builds a script.
type scriptBuilder struct {
	o     Options
	rng   *rand.Rand
	steps []step
	busy  []time.Duration // by peer, until when it is down
	cuts  int
}

// script returns the steps of a scenario, sorted by time. It is deterministic. At the end of a
// script nothing is cut and every peer runs, except for the lost one and the one that left.
func script(o Options, canCut bool) []step {
	m := &scriptBuilder{o: o, rng: rand.New(rand.NewPCG(o.Seed,
		uint64(slices.Index(Scenarios, o.Scenario)))), busy: make([]time.Duration, o.Peers)}
	switch o.Scenario {
	case "kills":
		m.kills()
	case "lost":
		m.add(step{At: m.within(0.2, 0.8), Kind: lose, Peer: m.rng.IntN(o.Peers)})
	case "leave":
		m.add(step{At: m.within(0.2, 0.7), Kind: leave, Peer: m.rng.IntN(o.Peers)})
	case "partition":
		half := m.rng.Perm(o.Peers)[:o.Peers/2]
		m.cut(o.Length/5, min(o.Cut, o.Length/2), m.between(half, true))
	case "mixed":
		m.mixed(canCut)
	}
	slices.SortStableFunc(m.steps, func(a, b step) int { return int(a.At - b.At) })
	return m.steps
}

func (m *scriptBuilder) add(s step) { m.steps = append(m.steps, s) }

// within draws a time between two fractions of the script's length.
func (m *scriptBuilder) within(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*m.rng.Float64()) * float64(m.o.Length))
}

// long draws a duration, log-uniformly.
func (m *scriptBuilder) long(from, to time.Duration) time.Duration {
	from = min(from, to)
	return time.Duration(float64(from) * math.Pow(float64(to)/float64(from), m.rng.Float64()))
}

// next draws the time of the fault that follows at.
func (m *scriptBuilder) next(at time.Duration) time.Duration {
	mean := min(10*time.Second, m.o.Length/8)
	return at + mean/2 + time.Duration(m.rng.Int64N(int64(mean)))
}

// most returns the largest number of peers that may be down at once: three of eight.
func (m *scriptBuilder) most() int { return max(1, m.o.Peers*3/8) }

// idle returns a random peer of a list that is up at a time; false if there is none or too many
// peers are down already.
func (m *scriptBuilder) idle(of []int, at time.Duration) (int, bool) {
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

// out adds the steps that take a peer down and up again.
func (m *scriptBuilder) out(peer int, at, last time.Duration, down, up kind) {
	until := min(at+last, m.o.Length)
	m.add(step{At: at, Kind: down, Peer: peer})
	m.add(step{At: until, Kind: up, Peer: peer})
	m.busy[peer] = until
}

func (m *scriptBuilder) kills() {
	victims := m.rng.Perm(m.o.Peers)[:m.most()]
	for at := m.next(0); at < m.o.Length; at = m.next(at) {
		if i, ok := m.idle(victims, at); ok {
			m.out(i, at, m.long(time.Second, m.o.Down), kill, start)
		}
	}
}

// between returns the directions between some peers and all others: both ways, or only from
// some to the others.
func (m *scriptBuilder) between(some []int, both bool) []pair {
	var ps []pair
	for a := range m.o.Peers {
		for b := range m.o.Peers {
			if in, to := slices.Contains(some, a), slices.Contains(some, b); in != to &&
				(both || in) {
				ps = append(ps, pair{a, b})
			}
		}
	}
	return ps
}

func (m *scriptBuilder) cut(at, last time.Duration, ps []pair) {
	m.add(step{At: at, Kind: cut, Peer: -1, Cut: m.cuts, Pairs: ps})
	m.add(step{At: min(at+last, m.o.Length), Kind: heal, Peer: -1, Cut: m.cuts, Pairs: ps})
	m.cuts++
}

// mixed adds faults of all kinds.
func (m *scriptBuilder) mixed(canCut bool) {
	all := m.rng.Perm(m.o.Peers)
	for at := m.next(0); at < m.o.Length; at = m.next(at) {
		draw := m.rng.IntN(12)
		i, ok := m.idle(all, at)
		last := m.long(2*time.Second, m.o.Down)
		switch {
		case draw < 4 && ok:
			m.out(i, at, m.long(time.Second, m.o.Down), kill, start)
		case draw < 6 && ok:
			m.out(i, at, last, pause, resume)
		case draw < 7 && ok:
			m.out(i, at, m.long(5*time.Second, m.o.Down), leave, start)
		case draw < 7 || !canCut:
		case draw < 11:
			a, b := all[0], all[1]
			m.rng.Shuffle(len(all), func(x, y int) { all[x], all[y] = all[y], all[x] })
			ps := []pair{{a, b}, {b, a}}
			m.cut(at, last, ps[:1+draw%2])
		default:
			m.cut(at, last, m.between([]int{m.rng.IntN(m.o.Peers)}, m.rng.IntN(2) == 0))
		}
	}
}
