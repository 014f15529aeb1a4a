package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errFailed says that the run itself went well, and what must hold does not.
var errFailed = errors.New("something of what must hold does not")

// errTold is an error of the process inside, which has said it.
var errTold = errors.New("it failed inside")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		if !errors.Is(err, errTold) {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
		stop()
		os.Exit(1)
	}
}

// options say what is run.
type options struct {
	peers, sites, pages int
	length, cut, down   time.Duration // of the script; of the partition; how long one is down at most
	gap, settle, warm   time.Duration
	seed                uint64
	scenario            string
	peerd, keep, config string
	log                 string // level
	json, loopback      bool

	dir string // homes and logs
}

func (o *options) flags(fs *flag.FlagSet) {
	fs.IntVar(&o.peers, "peers", 8, "peers, 2 to 50")
	fs.IntVar(&o.sites, "sites", 40, "sites, each in a subnet of its own, 2 to 250")
	fs.IntVar(&o.pages, "pages", 0, "pages of all sites together; 0: as many as last about --for")
	fs.DurationVar(&o.length, "for", 10*time.Minute, "how long the script is")
	fs.DurationVar(&o.cut, "cut", 5*time.Minute, "how long the scenario partition cuts, half of --for at most")
	fs.DurationVar(&o.down, "down", 90*time.Second, "how long a peer is down or stopped at most, in kills and mixed")
	fs.DurationVar(&o.gap, "gap", time.Second, "least time between two requests to a site")
	fs.DurationVar(&o.warm, "warm", 130*time.Second, "how long the peers run before the seed is given: new ones vote in no takeover for two minutes")
	fs.DurationVar(&o.settle, "settle", 20*time.Minute, "how long the crawl may go on after the script")
	fs.Uint64Var(&o.seed, "seed", 1, "decides the script and the web")
	fs.StringVar(&o.scenario, "scenario", "mixed", strings.Join(scenarios, ", ")+", or all")
	fs.StringVar(&o.peerd, "peerd", "", "the `program` peerd; built from source if not given")
	fs.StringVar(&o.keep, "keep", "", "`directory` for the peers' homes and logs, and hits.jsonl, which are left there; peers that never come to an end are ended by SIGQUIT then, which writes their stacks to their logs")
	fs.StringVar(&o.config, "config", "", "`file` with settings for every peer's config.toml")
	fs.StringVar(&o.log, "log-level", "info", "what the peers log")
	fs.BoolVar(&o.loopback, "loopback", false, "make no namespaces, even if it is possible")
	fs.BoolVar(&o.json, "json", false, "print JSON, one report a line")
}

// validate names the first fault.
func (o *options) validate() error {
	switch {
	case o.peers < 2 || o.peers > 50:
		return fmt.Errorf("--peers %d: want 2 to 50", o.peers)
	case o.sites < 2 || o.sites > 250:
		return fmt.Errorf("--sites %d: want 2 to 250", o.sites)
	case o.pages != 0 && o.pages < o.sites:
		return fmt.Errorf("--pages %d: want at least one for each of %d sites", o.pages, o.sites)
	case o.length < 5*time.Second || o.length > 24*time.Hour:
		return fmt.Errorf("--for %v: want 5s to 24h", o.length)
	case o.gap < time.Millisecond || o.down < time.Second || o.settle <= 0 || o.cut <= 0 || o.warm < 0:
		return errors.New("want --gap from 1ms, --down from 1s, and other times above zero")
	case o.scenario != "all" && !slices.Contains(scenarios, o.scenario):
		return fmt.Errorf("--scenario %q: want %s or all", o.scenario, strings.Join(scenarios, ", "))
	}
	return nil
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	var o options
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.SetOutput(stderr)
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: no arguments, only options", fs.Arg(0))
	}
	if err := o.validate(); err != nil {
		return err
	}
	if dir := os.Getenv(insideEnv); dir != "" {
		return o.inside(ctx, dir, stdin, stdout, stderr)
	}
	return o.outside(ctx, args, stdout, stderr)
}

// outside makes a directory and the program peerd, and starts this program
// again in namespaces. It removes the directory when all processes are gone.
func (o *options) outside(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "peerd-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.peerd == "" {
		o.peerd = filepath.Join(dir, "peerd")
		build := exec.CommandContext(ctx, "go", "build", "-o", o.peerd, "peerd/cmd/peerd")
		build.Stderr = stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("build peerd: %w", err)
		}
		args = append(slices.Clone(args), "--peerd", o.peerd)
	}
	if !o.loopback {
		err := again(ctx, dir, args, stdout, stderr)
		if !errors.Is(err, errNoNamespaces) {
			return err
		}
		fmt.Fprintf(stderr, "chaos: %v: peers cannot be cut from one another, all else runs on loopback\n", err)
	}
	return o.scenariosIn(ctx, dir, &loopback{}, stdout, stderr)
}

// inside runs in namespaces of its own, until standard input ends.
func (o *options) inside(ctx context.Context, dir string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	if err := settleIn(); err != nil {
		return err
	}
	b, err := newBridge(ctx, o.peers)
	if err != nil {
		return err
	}
	return o.scenariosIn(ctx, dir, b, stdout, stderr)
}

// scenariosIn runs one scenario, or all of them.
func (o *options) scenariosIn(ctx context.Context, dir string, w wires, stdout, stderr io.Writer) error {
	list := []string{o.scenario}
	if o.scenario == "all" {
		list = scenarios
	}
	if o.keep != "" {
		dir = o.keep
	}
	failed := false
	for _, name := range list {
		one := *o
		one.scenario, one.dir = name, filepath.Join(dir, name)
		if err := os.MkdirAll(one.dir, 0o755); err != nil {
			return err
		}
		if name == "partition" && !w.cuts() {
			fmt.Fprintln(stderr, "chaos: the scenario partition is left out")
			continue
		}
		r, err := one.play(ctx, w, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		failed = failed || !r.ok()
		if err := r.write(stdout, o.json); err != nil {
			return err
		}
		if o.keep == "" {
			if err := os.RemoveAll(one.dir); err != nil {
				return err
			}
		}
	}
	if failed {
		return errFailed
	}
	return nil
}

// write prints r as a line of JSON or for people.
func (r Report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := io.WriteString(w, r.table())
	return err
}
