package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is what a fault does.
type Kind int

// The kinds of faults. Each ends after its time.
const (
	Kill    Kind = iota // kill -9; the process starts again
	Power               // power cut: what was not synced is gone; it starts again
	Pause               // nothing gets in or out, and nothing is synced
	Split               // the peers fall into two halves that do not hear each other
	OneWay              // some peers are not heard by the others, but hear them
	Slow                // everything from and to a peer takes longer
	Drop                // all connections of a peer are lost
	Full                // the disk is full
	Crawls              // the disk is slow
	Offline             // a peer hears neither peers nor sites
	Lossy               // a share of what a peer sends and is sent gets lost on the way, and is sent again
	Long                // a Split into halves that lasts for minutes
	Leave               // a peer hands everything over and leaves; it comes back
	Move                // a site moves to a server in another subnet
	Loss                // the machine is gone for good, with its disk
	Wiped               // the same, but it comes back under its key with an empty disk
	kinds
)

var kindNames = [kinds]string{
	"kill", "power", "pause", "split", "one-way", "slow", "drop", "full", "slow-disk", "offline", "lossy", "long-split", "leave", "move",
	"loss", "wiped",
}

func (k Kind) String() string { return kindNames[k] }

// Fault is one thing that goes wrong.
type Fault struct {
	Kind  Kind
	At    time.Duration // after the crawl was seeded
	For   time.Duration
	Peers []int         // to whom it happens; of Split and Long one half, of OneWay those unheard, of Move nobody
	By    time.Duration // of Slow, a direction
	Share float64       // of Lossy: what gets lost
	Sites [2]int        // of Move: the first goes to where the second is
	Dice  uint64        // of Power: how much of the disk's cache is kept
}

func (f Fault) String() string {
	s := fmt.Sprintf("%7.3fs %-9s %v for %.3fs", f.At.Seconds(), f.Kind, f.Peers, f.For.Seconds())
	switch f.Kind {
	case Slow:
		s += fmt.Sprintf(" by %v", f.By)
	case Lossy:
		s += fmt.Sprintf(" of %.0f %%", 100*f.Share)
	case Move:
		s += fmt.Sprintf(" of site %d to the subnet of site %d", f.Sites[0], f.Sites[1])
	}
	return s
}

// cuts says that peers hear each other no more, by f.Peers.
func (f Fault) cuts() bool { return f.Kind == Split || f.Kind == OneWay || f.Kind == Long }

// empties says that a disk is gone for good, and all that was on it.
func (f Fault) empties() bool { return f.Kind == Loss || f.Kind == Wiped }

// Schedule is what goes wrong in one simulation.
type Schedule struct {
	Faults []Fault         // by time
	Skews  []time.Duration // of the peers' clocks
}

func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s.Faults {
		fmt.Fprintln(&b, f)
	}
	if slices.ContainsFunc(s.Skews, func(d time.Duration) bool { return d != 0 }) {
		fmt.Fprintln(&b, "clocks are off by", s.Skews)
	}
	return b.String()
}

// maxSkew is how wrong a clock may be, in either direction.
const maxSkew = 2 * time.Minute

// weights say how often each kind comes, by level.
func weights(l Level) []Kind {
	var all []Kind
	add := func(k Kind, n int) { all = append(all, slices.Repeat([]Kind{k}, n)...) }
	if l >= Returning {
		add(Kill, 5)
		add(Power, 4)
		add(Pause, 3)
		add(Split, 3)
		add(OneWay, 2)
		add(Slow, 2)
		add(Drop, 3)
		add(Full, 1)
		add(Crawls, 1)
		add(Offline, 2)
		add(Lossy, 2)
		add(Long, 1)
		add(Leave, 3)
	}
	if l >= Losing {
		add(Loss, 4)
		add(Wiped, 2)
	}
	if l >= Moving {
		add(Move, 12)
	}
	return all
}

// NewSchedule makes the schedule of o.
func NewSchedule(o Options) Schedule {
	rng := rand.New(rand.NewPCG(o.Seed, 0x73636865))
	s := Schedule{Skews: make([]time.Duration, o.Peers)}
	kinds := weights(o.Level)
	if len(kinds) == 0 {
		return s
	}
	if rng.IntN(3) == 0 {
		for i := range s.Skews {
			s.Skews[i] = (time.Duration(rng.Int64N(int64(2*maxSkew))) - maxSkew).Round(time.Millisecond)
		}
	}
	lost, moved := 0, false
	for range 1 + rng.IntN(8) {
		f := Fault{
			Kind: kinds[rng.IntN(len(kinds))], At: between(rng, 0, o.Faults), Peers: []int{rng.IntN(o.Peers)}, Dice: rng.Uint64(),
		}
		switch f.Kind {
		case Kill, Power:
			f.For = between(rng, 200*time.Millisecond, 40*time.Second)
		case Pause, Offline:
			f.For = between(rng, time.Second, time.Minute)
		case Split, OneWay:
			f.Peers = rng.Perm(o.Peers)[:1+rng.IntN(o.Peers/2)]
			slices.Sort(f.Peers)
			f.For = between(rng, time.Second, 90*time.Second)
		case Long:
			f.Peers = rng.Perm(o.Peers)[:o.Peers/2]
			slices.Sort(f.Peers)
			f.For = between(rng, 2*time.Minute, 5*time.Minute)
		case Leave:
			f.For = between(rng, 10*time.Second, time.Minute)
		case Lossy:
			f.Share, f.For = 0.02+0.28*rng.Float64(), between(rng, time.Second, time.Minute)
		case Move:
			f.Peers = nil
			if moved || o.Sites < 2 { // one site, once
				f.Kind, f.Peers = Drop, []int{rng.IntN(o.Peers)}
				break
			}
			f.Sites, moved = moveable(rng, o.Sites), true
			f.At, f.For = between(rng, o.Faults/2, o.Faults), time.Minute
		case Slow:
			f.By, f.For = between(rng, 100*time.Millisecond, 3*time.Second), between(rng, time.Second, time.Minute)
		case Full, Crawls:
			f.For = between(rng, time.Second, 30*time.Second)
		case Loss, Wiped:
			if f.Kind == Wiped {
				f.For = between(rng, 5*time.Second, time.Minute)
			}
			if lost++; lost > 1 { // one at a time is what one shadow is good for
				f.Kind, f.For = Kill, between(rng, time.Second, 40*time.Second)
			}
		}
		s.Faults = append(s.Faults, f)
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return s
}

// moveable chooses a site that has its address, and the others of its subnet none
// of that, and one whose subnet it can go to.
func moveable(rng *rand.Rand, sites int) [2]int {
	for {
		a, b := rng.IntN(sites), rng.IntN(sites)
		if a%6 < 4 && b%6 < 4 && a != b { // the last two of six share a subnet
			return [2]int{a, b}
		}
	}
}

func between(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(rng.Int64N(int64(hi-lo)))).Round(time.Millisecond)
}
