package sim_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"peerd/lab/sim"
)

var (
	simSeed   = flag.Uint64("seed", 0, "first seed")
	simSeeds  = flag.Int("seeds", 1, "number of seeds")
	simAtOnce = flag.Int("at-once", 2, "number of seeds that run at a time")
	simLevel  = flag.Int("level", int(sim.Returning), "faults: 0 none, 1 those that peers "+
		"recover from, 2 also the loss of a peer, 3 also the move of a site")
	simHistory = flag.Bool("history", false, "print the whole history of every seed")
	simLoud    = flag.Bool("loud", false, "print the peers' log")
	simChild   = flag.String("child", "", "run one seed in this process; the test itself sets it")
)

// TestSim runs simulations in child processes. To run one again:
//
//	go test ./lab/sim -run Sim -args -seed N
func TestSim(t *testing.T) {
	if *simChild != "" {
		sim.PlaySeed(t, *simChild)
		return
	}
	t.Parallel()
	playSeeds(t, *simSeeds, sim.Level(*simLevel))
}

// playSeeds plays seeds from -seed on, each by TestSim in a process of its own.
func playSeeds(t *testing.T, seeds int, level sim.Level) sim.Summary {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	sum, err := sim.PlaySeeds(t.Context(), sim.SeedsOptions{
		Seed: *simSeed, Seeds: seeds, AtOnce: *simAtOnce, Level: level,
		History: *simHistory, Loud: *simLoud,
		Self: []string{exe, "-test.run=^TestSim$", "-test.v", "-child"},
		Done: func(seed uint64, text []byte, err error) {
			if err != nil {
				t.Errorf("seed %d: %v\n%s\nrun again: go test ./lab/sim "+
					"-run Sim -args -seed %d -level %d -history", seed, err, text, seed,
					level)
			} else if testing.Verbose() {
				t.Logf("%s", text)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("level %d, %v of real time: %v", level, time.Since(begin).Round(time.Second), &sum)
	return sum
}
