package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kind is the kind of a fault.
type Kind int

// The kinds of faults. Each ends after Fault.For, except for Drop and Loss.
const (
	Kill      Kind = iota // kill -9; the process restarts
	Power                 // power failure that loses unsynced commits; the process restarts
	Pause                 // a machine sends, receives and syncs nothing
	Split                 // two groups of peers cannot reach each other
	OneWay                // messages of some peers do not reach the others, but vice versa
	Slow                  // all messages from and to a peer take longer
	Drop                  // all connections of a peer are reset
	Full                  // the disk is full
	SlowDisk              // the disk is slow
	Offline               // a peer reaches neither peers nor sites
	Lossy                 // a share of the segments to and from a peer is retransmitted
	LongSplit             // a Split into halves that lasts for minutes
	Leave                 // a peer hands over everything and exits; it returns
	Move                  // a site moves to a server in another subnet
	Loss                  // the machine is lost permanently with its disk
	Wiped                 // the machine loses its disk and returns under its key
	kinds
)

var kindNames = [kinds]string{
	"kill", "power", "pause", "split", "one-way", "slow", "drop", "full", "slow-disk", "offline",
	"lossy", "long-split", "leave", "move",
	"loss", "wiped",
}

func (k Kind) String() string { return kindNames[k] }

// Fault is one fault of a schedule.
type Fault struct {
	Kind Kind
	At   time.Duration // since the crawl was seeded
	For  time.Duration
	// Received has the fault begin before At, when the first of Peers has received a subnet
	// in a handover. At is then set to that time.
	Received bool
	// Peers are the peers it affects: for Split and LongSplit one group, for OneWay
	// the peers that the others do not receive, for Move none.
	Peers []int
	By    time.Duration // Slow: additional latency in each direction
	Share float64       // Lossy: share of segments that are lost
	Sites [2]int        // Move: the first site moves to the subnet of the second
	Dice  uint64        // Power: seed that decides which commits are lost
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

// partitions reports whether f separates f.Peers from the other peers.
func (f Fault) partitions() bool {
	return f.Kind == Split || f.Kind == OneWay || f.Kind == LongSplit
}

// destroysDisk reports whether f destroys a disk with all data.
func (f Fault) destroysDisk() bool { return f.Kind == Loss || f.Kind == Wiped }

// Schedule is the list of faults of one simulation.
type Schedule struct {
	Faults []Fault         // by time
	Skews  []time.Duration // offsets of the peers' clocks
	counts []time.Duration // when nearness is counted, since the crawl was seeded
}

func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s.Faults {
		fmt.Fprintln(&b, f)
	}
	if slices.ContainsFunc(s.Skews, func(d time.Duration) bool { return d != 0 }) {
		fmt.Fprintln(&b, "clock offsets:", s.Skews)
	}
	return b.String()
}

// maxSkew is the largest absolute offset of a clock.
const maxSkew = 2 * time.Minute

// weights returns each kind of fault of a level as often as its relative frequency.
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
		add(SlowDisk, 1)
		add(Offline, 2)
		add(Lossy, 2)
		add(LongSplit, 1)
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

// NewSchedule returns the schedule for o, which depends on nothing else.
func NewSchedule(o Options) Schedule {
	rng := rand.New(rand.NewPCG(o.Seed, 0x73636865))
	s := Schedule{Skews: make([]time.Duration, o.Peers)}
	kinds := weights(o.Level)
	if len(kinds) == 0 {
		return s
	}
	if rng.IntN(3) == 0 {
		for i := range s.Skews {
			s.Skews[i] = (time.Duration(rng.Int64N(int64(2*maxSkew))) - maxSkew).Round(
				time.Millisecond)
		}
	}
	lost, moved := 0, false
	for range 1 + rng.IntN(8) {
		f := Fault{
			Kind: kinds[rng.IntN(len(kinds))], At: randomDuration(rng, 0, o.Faults),
			Peers: []int{rng.IntN(o.Peers)}, Dice: rng.Uint64(),
		}
		switch f.Kind {
		case Kill, Power:
			f.For = randomDuration(rng, 200*time.Millisecond, 40*time.Second)
		case Pause, Offline:
			f.For = randomDuration(rng, time.Second, time.Minute)
		case Split, OneWay:
			f.Peers = rng.Perm(o.Peers)[:1+rng.IntN(o.Peers/2)]
			slices.Sort(f.Peers)
			f.For = randomDuration(rng, time.Second, 90*time.Second)
		case LongSplit:
			f.Peers = rng.Perm(o.Peers)[:o.Peers/2]
			slices.Sort(f.Peers)
			f.For = randomDuration(rng, 2*time.Minute, 5*time.Minute)
		case Leave:
			f.For = randomDuration(rng, 10*time.Second, time.Minute)
		case Lossy:
			f.Share, f.For = 0.02+0.28*rng.Float64(), randomDuration(rng, time.Second, time.Minute)
		case Move:
			f.Peers = nil
			if moved || o.Sites < 2 { // at most one move
				f.Kind, f.Peers = Drop, []int{rng.IntN(o.Peers)}
				break
			}
			f.Sites, moved = chooseMove(rng, o.Sites), true
			f.At, f.For = randomDuration(rng, o.Faults/2, o.Faults), time.Minute
		case Slow:
			f.By, f.For = randomDuration(rng, 100*time.Millisecond, 3*time.Second),
				randomDuration(rng, time.Second, time.Minute)
		case Full, SlowDisk:
			f.For = randomDuration(rng, time.Second, 30*time.Second)
		case Loss, Wiped:
			if f.Kind == Wiped {
				f.For = randomDuration(rng, 5*time.Second, time.Minute)
			}
			if lost++; lost > 1 { // replication tolerates one loss at a time
				f.Kind, f.For = Kill, randomDuration(rng, time.Second, 40*time.Second)
			}
		}
		s.Faults = append(s.Faults, f)
	}
	s.Faults = append(s.Faults, repeated(o)...)
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return int(a.At - b.At) })
	return s
}

// repeated returns, for one seed of six, a fault that affects the first peer, which claims most
// subnets, again and again. Each time another peer is killed for somewhat longer.
func repeated(o Options) (faults []Fault) {
	rng := rand.New(rand.NewPCG(o.Seed, 0x6b696c6c))
	if o.Peers < 2 || rng.IntN(6) > 0 {
		return nil
	}
	kind := [...]Kind{Kill, Kill, Kill, Power, Pause, Offline, Full, Leave}[rng.IntN(8)]
	for at := time.Duration(0); len(faults) < 2*repetitions; {
		at += randomDuration(rng, 3*time.Second, 30*time.Second)
		f := Fault{Kind: kind, At: at, For: randomDuration(rng, time.Second, 5*time.Second),
			Peers: []int{0}, Dice: rng.Uint64()}
		at += f.For
		other := Fault{Kind: Kill, At: at - f.For/2, Peers: []int{1 + rng.IntN(o.Peers-1)}}
		other.For = randomDuration(rng, time.Second, 20*time.Second)
		faults = append(faults, f, other)
	}
	return faults
}

// repetitions is how many times repeated affects the first peer.
const repetitions = 8

// chooseMove chooses a site that shares its subnet with no other, and another such
// site, to the subnet of which it moves.
func chooseMove(rng *rand.Rand, sites int) [2]int {
	for {
		a, b := rng.IntN(sites), rng.IntN(sites)
		if a%6 < 4 && b%6 < 4 && a != b { // the last two of each six share a subnet
			return [2]int{a, b}
		}
	}
}

func randomDuration(rng *rand.Rand, lo, hi time.Duration) time.Duration {
	return (lo + time.Duration(rng.Int64N(int64(hi-lo)))).Round(time.Millisecond)
}
