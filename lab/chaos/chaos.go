package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"peerd/lab/emulate/netns"
	"peerd/lab/internal/build"
)

// ErrFailed means that the run finished, and that a check of its report failed.
var ErrFailed = errors.New("a check failed")

// ErrInside means that the process inside the namespaces failed. It has written the reason to
// its standard error.
var ErrInside = errors.New("the process inside the namespaces failed")

// Options are the parameters of a run. The process inside the namespaces receives them as JSON.
type Options struct {
	Peers, Sites int
	// Pages is the number of pages of all sites together; 0 means as many as take about Length
	// to crawl.
	Pages int
	// Length is the length of the script, Cut the length of the cut in the scenario partition,
	// Down the longest time that a peer is killed or stopped.
	Length, Cut, Down time.Duration
	// Gap is the least time between two requests to a site, Warm the time that the peers run
	// before they get the seed, Settle the longest time that the crawl may continue after the
	// script.
	Gap, Warm, Settle time.Duration
	Seed              uint64
	// Scenario is one of Scenarios, or "all".
	Scenario string
	// Peerd is the path of the program peerd; "" builds it from source.
	Peerd string
	// Previous is the path of the program of another version, which every other peer runs; ""
	// means that all run Peerd.
	Previous string
	// Keep is a directory for home directories, logs and hits.jsonl, which are kept after the
	// run; "" removes them.
	Keep string
	// Config is a file with settings that are added to the config.toml of every peer, LogLevel
	// the minimum level of their log messages.
	Config, LogLevel string
	// Loopback runs without namespaces, even if they are available. JSON prints one JSON report
	// per line.
	Loopback, JSON bool
	// Self is the command that calls RunInside; a directory and the options as JSON
	// are appended to it.
	Self []string `json:"-"`

	dir string // for home directories and logs of one scenario
}

// DefaultOptions returns the defaults of the command line.
func DefaultOptions() Options {
	return Options{
		Peers: 8, Sites: 40, Length: 10 * time.Minute, Cut: 5 * time.Minute, Down: 90 * time.Second,
		Gap: time.Second, Warm: 130 * time.Second, Settle: 20 * time.Minute, Seed: 1,
		Scenario: "mixed", LogLevel: "info",
	}
}

// Validate returns an error that names the first invalid option.
func (o *Options) Validate() error {
	switch {
	case o.Peers < 2 || o.Peers > 50:
		return fmt.Errorf("--peers %d: want 2 to 50", o.Peers)
	case o.Sites < 2 || o.Sites > 250:
		return fmt.Errorf("--sites %d: want 2 to 250", o.Sites)
	case o.Pages != 0 && o.Pages < o.Sites:
		return fmt.Errorf("--pages %d: want at least one for each of %d sites", o.Pages, o.Sites)
	case o.Length < 5*time.Second || o.Length > 24*time.Hour:
		return fmt.Errorf("--for %v: want 5s to 24h", o.Length)
	case o.Gap < time.Millisecond || o.Down < time.Second || o.Settle <= 0 || o.Cut <= 0 ||
		o.Warm < 0:
		return errors.New("want --gap from 1ms, --down from 1s, and other times above zero")
	case o.Scenario != "all" && !slices.Contains(Scenarios, o.Scenario):
		return fmt.Errorf("--scenario %q: want %s or all", o.Scenario,
			strings.Join(Scenarios, ", "))
	}
	return nil
}

// Run creates a temporary directory, builds peerd if necessary, and starts this program again
// in new namespaces. It removes the directory after all processes have exited.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peerd-chaos-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if o.Peerd == "" {
		fmt.Fprintln(stderr, "chaos: building peerd, which may take minutes")
		if o.Peerd, err = build.Program(ctx, "cmd/peerd", dir); err != nil {
			return err
		}
	}
	if !o.Loopback {
		err := startInside(ctx, dir, o, stdout, stderr)
		if !errors.Is(err, netns.ErrUnavailable) {
			return err
		}
		fmt.Fprintf(stderr,
			"chaos: %v: running on loopback, without cuts between peers\n", err)
	}
	return o.runScenarios(ctx, dir, &loopback{}, stdout, stderr)
}

// startInside starts o.Self in new namespaces. It exits when its standard input is closed or this
// process exits.
func startInside(ctx context.Context, dir string, o Options, stdout, stderr io.Writer) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	var command []string
	if len(o.Self) > 0 {
		command = append(slices.Clone(o.Self), dir, string(text))
	}
	err = netns.Run(ctx, command, stdout, stderr)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return ErrInside
	}
	return err
}

// RunInside runs in the process inside the namespaces, with the two arguments that Run appended
// to Options.Self. It returns when standard input is closed.
func RunInside(
	ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
) error {
	if len(args) != 2 {
		return fmt.Errorf("got %d arguments, want a directory and options", len(args))
	}
	var o Options
	if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // runs until the process exits
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	if err := netns.Mount(); err != nil {
		return err
	}
	n, err := netns.New(ctx, o.Peers)
	if err != nil {
		return err
	}
	err = o.runScenarios(ctx, args[0], bridge{10, n}, stdout, stderr)
	if errors.Is(err, context.Canceled) { // the process outside the namespaces reports it
		return nil
	}
	return err
}

// runScenarios runs the scenario of o, or all of them.
func (o *Options) runScenarios(
	ctx context.Context, dir string, w network, stdout, stderr io.Writer,
) error {
	list := []string{o.Scenario}
	if o.Scenario == "all" {
		list = Scenarios
	}
	if o.Keep != "" {
		dir = o.Keep
	}
	failed := false
	for _, name := range list {
		one := *o
		one.Scenario, one.dir = name, filepath.Join(dir, name)
		if err := os.MkdirAll(one.dir, 0o755); err != nil {
			return err
		}
		if name == "partition" && !w.canCut() {
			fmt.Fprintln(stderr, "chaos: skipped scenario partition")
			continue
		}
		r, err := one.runScenario(ctx, w, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		failed = failed || !r.ok()
		if err := r.write(stdout, o.JSON); err != nil {
			return err
		}
		if r.Outcome == interrupted {
			return fmt.Errorf("%s: %w", name, ctx.Err())
		}
		if o.Keep == "" {
			if err := os.RemoveAll(one.dir); err != nil {
				return err
			}
		}
	}
	if failed {
		return ErrFailed
	}
	return nil
}

// write prints r as one line of JSON or as a table.
func (r Report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := io.WriteString(w, r.table())
	return err
}
