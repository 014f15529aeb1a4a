package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// seedLimit limits the real time of one seed.
const seedLimit = 10 * time.Minute

// SeedsOptions select seeds and how they are run.
type SeedsOptions struct {
	// Seed is the first seed, Seeds their number; AtOnce of them run at a time.
	Seed          uint64
	Seeds, AtOnce int
	Level         Level
	Disturbance   Disturbance // instead of Level; empty: none
	// History prints the whole history of every seed, Loud the peers' log.
	History, Loud bool
	// Self is the command that runs one seed. It must call RunSeed or PlaySeed with
	// the argument that is appended.
	Self []string
	// Done is called after each seed with its output and, if it failed, an error.
	// Calls do not overlap.
	Done func(seed uint64, text []byte, err error)
}

// Validate returns an error that names the first invalid option.
func (o SeedsOptions) Validate() error {
	switch {
	case o.Seeds < 1:
		return fmt.Errorf("--seeds %d: want 1 or more", o.Seeds)
	case o.AtOnce < 1:
		return fmt.Errorf("--at-once %d: want 1 or more", o.AtOnce)
	case o.Disturbance != "" && !slices.Contains(Disturbances, o.Disturbance):
		return fmt.Errorf("--disturb %s: want one of %q", o.Disturbance, Disturbances)
	case o.Level < Calm || o.Level > Moving:
		return fmt.Errorf("--level %d: want %d to %d", o.Level, Calm, Moving)
	}
	return nil
}

// PlaySeeds runs the simulations of several seeds and returns their summary. Each seed
// has a process of its own: values that libraries keep for the lifetime of a process
// (encoders that contain channels) must not pass from one bubble to another, and a
// single thread makes runs of a seed more similar.
func PlaySeeds(ctx context.Context, o SeedsOptions) (Summary, error) {
	var sum Summary
	if err := o.Validate(); err != nil {
		return sum, err
	}
	dir, err := os.MkdirTemp("", "peerd-sim-")
	if err != nil {
		return sum, err
	}
	defer os.RemoveAll(dir)
	var mu sync.Mutex
	var wg sync.WaitGroup
	gate := make(chan struct{}, o.AtOnce)
	for i := range uint64(o.Seeds) {
		gate <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wg.Go(func() {
			defer func() { <-gate }()
			one, text, err := o.playInChild(ctx, dir, o.Seed+i)
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() != nil {
				return
			}
			sum.Merge(one)
			if o.Done != nil {
				o.Done(o.Seed+i, text, err)
			}
		})
	}
	wg.Wait()
	return sum, ctx.Err()
}

// seedOptions are the options of the process of one seed.
type seedOptions struct {
	Seed          uint64
	Level         Level
	Disturbance   Disturbance
	History, Loud bool
	Dir           string // for the files of the peers
	Sum           string // file for the Summary
}

// playInChild runs a seed in a child process.
func (o SeedsOptions) playInChild(
	ctx context.Context, dir string, seed uint64,
) (sum Summary, text []byte, err error) {
	if len(o.Self) == 0 {
		return sum, nil, errors.New("sim: no command that runs a seed")
	}
	one := seedOptions{
		Seed: seed, Level: o.Level, Disturbance: o.Disturbance, History: o.History, Loud: o.Loud,
		Dir: filepath.Join(dir, fmt.Sprint("seed-", seed)),
		Sum: filepath.Join(dir, fmt.Sprint("sum-", seed)),
	}
	defer os.RemoveAll(one.Dir)
	if err := os.Mkdir(one.Dir, 0o700); err != nil {
		return sum, nil, err
	}
	arg, err := json.Marshal(one)
	if err != nil {
		return sum, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, seedLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, o.Self[0], append(slices.Clone(o.Self[1:]), string(arg))...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	cmd.Cancel = func() error { // SIGQUIT prints the goroutines
		return cmd.Process.Signal(syscall.SIGQUIT)
	}
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	raw, readErr := os.ReadFile(one.Sum)
	if readErr != nil || json.Unmarshal(raw, &sum) != nil {
		sum = Summary{Seeds: 1, Failed: 1}
	}
	if err != nil {
		sum.Failed = 1
	}
	return sum, out.Bytes(), err
}

// RunSeed runs one seed in this process, which is not a test binary, and exits.
func RunSeed(arg string) {
	testing.Init()
	if err := flag.CommandLine.Parse([]string{"-test.v"}); err != nil {
		panic(err) // unreachable: Parse exits on errors
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "Seed", F: func(t *testing.T) {
		PlaySeed(t, arg)
	}}}, nil, nil)
}

// PlaySeed runs one seed as the test t; arg is the argument that PlaySeeds appended to
// SeedsOptions.Self.
func PlaySeed(t *testing.T, arg string) {
	var one seedOptions
	if err := json.Unmarshal([]byte(arg), &one); err != nil {
		t.Fatal(err)
	}
	o := DefaultOptions(one.Seed)
	o.Level, o.Disturbance, o.Dir = one.Level, one.Disturbance, one.Dir
	if one.Loud {
		o.Logger = slog.New(slog.NewTextHandler(os.Stdout,
			&slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	begin := time.Now()
	var r Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = Run(o); err != nil {
			t.Fatal(err)
		}
	})
	if one.History {
		for _, e := range r.History {
			fmt.Println(e)
		}
	}
	t.Logf("%v; took %v", r, time.Since(begin).Round(time.Millisecond))
	if len(r.Violations) > 0 {
		t.Error(r.Report())
	}
	var sum Summary
	sum.Add(r)
	raw, err := json.Marshal(sum)
	if err == nil {
		err = os.WriteFile(one.Sum, raw, 0o600)
	}
	if err != nil {
		t.Error(err)
	}
}
