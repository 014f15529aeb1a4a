package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"peerd/node/sim"
)

var (
	simSeed    = flag.Uint64("seed", 0, "simulation: the first seed; 0 is 1, and then -seeds is 3")
	simSeeds   = flag.Int("seeds", 1, "simulation: how many seeds")
	simAtOnce  = flag.Int("atonce", 2, "simulation: how many at once")
	simLevel   = flag.Int("level", int(sim.Returning), "simulation: 0 nothing happens, 1 what peers come back from, 2 one peer is lost for good, 3 and a site moves")
	simHistory = flag.Bool("history", false, "simulation: prints the whole history of every seed")
	simLoud    = flag.Bool("loud", false, "simulation: prints what the peers log")
	simSum     = flag.String("sum", "", "simulation: play -seed in this very process, and write what it came to into this file")
)

// simLimit bounds one seed in real time.
const simLimit = 10 * time.Minute

// TestSim plays schedules of faults over whole peers on virtual time and checks
// the history of each. To play one again:
//
//	go test ./node -run Sim -args -seed N
//
// Each seed has a process of its own: what libraries keep for the life of a
// process (coders with channels in them) must not cross from one bubble into
// another, and one thread at a time makes plays of a seed more alike.
func TestSim(t *testing.T) {
	if *simSum != "" {
		playSeed(t)
		return
	}
	if *simSeed == 0 {
		*simSeed = 1
		if *simSeeds == 1 {
			*simSeeds = 3
		}
	}
	var sum sim.Summary
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	gate := make(chan struct{}, *simAtOnce)
	for i := range uint64(*simSeeds) {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			one, text, err := runSeed(t, *simSeed+i)
			mu.Lock()
			defer mu.Unlock()
			sum.Merge(one)
			if err != nil {
				t.Errorf("seed %d: %v\n%s\nagain: go test ./node -run Sim -args -seed %d -level %d -history", *simSeed+i, err, text, *simSeed+i, *simLevel)
			} else if testing.Verbose() {
				t.Logf("%s", text)
			}
		})
	}
	wg.Wait()
	t.Logf("level %d, %v of real time: %v", *simLevel, time.Since(begin).Round(time.Second), &sum)
}

// runSeed plays a seed in a process of its own.
func runSeed(t *testing.T, seed uint64) (sum sim.Summary, text []byte, err error) {
	exe, err := os.Executable()
	if err != nil {
		return sum, nil, err
	}
	file := filepath.Join(t.TempDir(), fmt.Sprint("seed-", seed))
	ctx, cancel := context.WithTimeout(t.Context(), simLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-test.run=^TestSim$", "-test.v", "-sum", file, "-seed", fmt.Sprint(seed),
		"-level", fmt.Sprint(*simLevel), fmt.Sprintf("-history=%v", *simHistory), fmt.Sprintf("-loud=%v", *simLoud))
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) } // tells where it hangs
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	raw, readErr := os.ReadFile(file)
	if readErr != nil || json.Unmarshal(raw, &sum) != nil {
		sum = sim.Summary{Seeds: 1, Failed: 1}
	}
	return sum, out.Bytes(), err
}

// playSeed plays one seed here.
func playSeed(t *testing.T) {
	o := sim.DefaultOptions(*simSeed)
	o.Level, o.Dir = sim.Level(*simLevel), t.TempDir()
	if *simLoud {
		o.Logger = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	begin := time.Now()
	var r sim.Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = sim.Run(o); err != nil {
			t.Fatal(err)
		}
	})
	if *simHistory {
		for _, e := range r.History {
			fmt.Println(e)
		}
	}
	t.Logf("%v; took %v", r, time.Since(begin).Round(time.Millisecond))
	if len(r.Violations) > 0 {
		t.Error(r.Report())
	}
	var sum sim.Summary
	sum.Add(r)
	raw, err := json.Marshal(sum)
	if err == nil {
		err = os.WriteFile(*simSum, raw, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}
