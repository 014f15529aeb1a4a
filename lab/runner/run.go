package runner

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate"
	"peerd/node/admin"
)

// ErrNoMachine means that no machine is left.
var ErrNoMachine = errors.New("no machine is left")

// runner runs one experiment.
type runner struct {
	f        *File
	dir      string
	machines []Machine
	told     sync.Mutex // guards say
	say      io.Writer
	spec     *emulate.Spec  // nil: no emulation
	layout   emulate.Layout // with spec
	size     int64          // of the program

	mu     sync.Mutex
	p      *progress
	failed error                // to save the state
	seen   map[int]admin.Status // what the last look has shown

	// busy has an element, for each machine, while something is done to its peers during the
	// crawl. It guards silent, the number of successive looks that the machine did not answer.
	busy   []chan struct{}
	silent []int
}

// Run runs the experiment of a file, or continues it, with its results in dir. It returns nil if
// the experiment ran to its end, whatever the report says. Messages go to say.
func Run(ctx context.Context, f *File, dir string, say io.Writer) error {
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return err
	}
	held, err := lock(dir)
	if err != nil {
		return err
	}
	defer held.Close()
	r, err := open(f, dir, say)
	if err != nil {
		return err
	}
	for _, phase := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"check the machines", r.check},
		{"distribute the program", r.spread},
		{"create the peers", r.prepare},
		{"join the network", r.join},
		{"start the peers", r.start},
		{"give the seeds", r.seed},
		{"crawl", r.crawl},
		{"stop the peers", r.stop},
		{"collect the logs", r.collect},
		{"report", r.report},
		{"clean up", r.clean},
	} {
		if err := phase.do(ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("%s: interrupted; the same command continues: %w", phase.name,
					ctx.Err())
			}
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		if r.failed != nil {
			return fmt.Errorf("save the state: %w", r.failed)
		}
	}
	return nil
}

// open prepares a run, with the state of an earlier one if there is one.
func open(f *File, dir string, say io.Writer) (*runner, error) {
	r := &runner{f: f, dir: dir, say: say, silent: make([]int, len(f.Machines)),
		seen: map[int]admin.Status{}}
	for _, m := range f.Machines {
		r.machines = append(r.machines, Command(m.Command))
		r.busy = append(r.busy, make(chan struct{}, 1))
	}
	program, size, err := digest(f.Peerd)
	if err != nil {
		return nil, fmt.Errorf("program: %w", err)
	}
	r.size = size
	r.p, err = load(dir, f.digest)
	if err != nil {
		return nil, err
	}
	if r.p != nil && r.p.Program != program {
		return nil, fmt.Errorf("%s has changed since the experiment began: %w", f.Peerd, ErrOther)
	}
	if r.p == nil {
		r.p = newProgress(f)
		r.p.Digest, r.p.Program = f.digest, program
	} else {
		r.p.Resumed++
		r.printf("continuing the experiment of %s", r.p.Begun.Format(time.DateTime))
	}
	r.emulation()
	r.change(func() {})
	return r, r.failed
}

func newProgress(f *File) *progress {
	p := &progress{ID: rand.Text(), Begun: time.Now().UTC(), Founder: -1}
	for i, m := range f.Machines {
		p.Machines = append(p.Machines, &machineState{State: New})
		for j := range m.Peers {
			p.Peers = append(p.Peers, &peerState{State: New, Machine: i, Port: m.Port + j})
		}
	}
	for range f.Steps {
		p.Steps = append(p.Steps, &stepState{})
	}
	return p
}

// emulation makes the layout of an emulated network. It is the same in every run.
func (r *runner) emulation() {
	e := r.f.Emulate
	if e == nil {
		return
	}
	r.spec = &emulate.Spec{Peers: len(r.p.Peers), Sites: e.Sites, Pages: e.Pages, Seed: r.f.Seed,
		Port: r.f.Port, MinDelay: e.MinDelay.Duration, TimeScale: e.TimeScale}
	r.layout = r.spec.Layout()
}

// digest returns the SHA-256 of a file and its size.
func digest(name string) (string, int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), n, err
}

func (r *runner) printf(format string, args ...any) {
	r.told.Lock()
	defer r.told.Unlock()
	fmt.Fprintf(r.say, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// change changes the state and saves it, before anything else can happen.
func (r *runner) change(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
	if err := r.p.save(r.dir); err != nil && r.failed == nil {
		r.failed = err
	}
}

// place returns the directory on machine m.
func (r *runner) place(m int) place {
	return place{r.f.Machines[m].Dir, r.p.ID, r.p.Program}
}

// sites is the number of the process of the sites, which is that of no peer.
const sites = -1

// proc returns the state of a peer or of the sites.
func (r *runner) proc(i int) *peerState {
	if i == sites {
		return r.p.Sites
	}
	return r.p.Peers[i]
}

// name returns the name of a process, which is also that of its directory.
func name(i int) string {
	if i == sites {
		return "sites"
	}
	return fmt.Sprintf("peer-%03d", i)
}

// procs returns the processes of a machine that are in one of some states, the sites first.
func (r *runner) procs(m int, states ...State) (all []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := sites; i < len(r.p.Peers); i++ {
		if p := r.proc(i); p != nil && p.Machine == m && slices.Contains(states, p.State) {
			all = append(all, i)
		}
	}
	return all
}

// namesOf returns the names of processes and the numbers of their last starts.
func (r *runner) namesOf(procs []int) (names []string, numbers []int) {
	for _, i := range procs {
		names, numbers = append(names, name(i)), append(numbers, r.proc(i).Starts)
	}
	return names, numbers
}

// sh runs a script in the directory on machine m, with a time limit, and returns what it prints.
func (r *runner) sh(
	ctx context.Context, m int, limit time.Duration, script string,
) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	err := r.machines[m].Run(ctx, r.place(m).enter()+script, nil, &limited{&out, maxAnswer, nil})
	return out.String(), err
}

// maxAnswer is the most that a machine may print.
const maxAnswer = 16 << 20

// limited writes at most rest bytes, and calls seen before each write.
type limited struct {
	to   io.Writer
	rest int64
	seen func()
}

func (l *limited) Write(b []byte) (int, error) {
	if l.seen != nil {
		l.seen()
	}
	if l.rest -= int64(len(b)); l.rest < 0 {
		return 0, errors.New("too much was printed")
	}
	return l.to.Write(b)
}

// answers returns the lines "NAME TAB WORD TAB REST" of a script, by process.
func (r *runner) answers(m int, text string) map[int][2]string {
	all := map[int][2]string{}
	for i := sites; i < len(r.p.Peers); i++ {
		if p := r.proc(i); p == nil || p.Machine != m {
			continue
		}
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), name(i)+"\t"); ok {
				word, rest, _ := strings.Cut(rest, "\t")
				all[i] = [2]string{word, rest}
			}
		}
	}
	return all
}

// leaveOut takes a machine out of the experiment, with its peers.
func (r *runner) leaveOut(m int, why error) {
	text := strings.ReplaceAll(why.Error(), "\n", "; ")
	r.change(func() {
		r.p.Machines[m].State, r.p.Machines[m].Why = LeftOut, text
		for i := sites; i < len(r.p.Peers); i++ {
			if p := r.proc(i); p != nil && p.Machine == m && p.State != Collected {
				p.State, p.Why = LeftOut, "its machine was left out"
			}
		}
	})
	r.printf("left out machine %s: %s", r.f.Machines[m].Name, text)
}

// each does something at once for all machines in one state, each of which is then in the next
// one, or is left out if it fails. It fails if no machine is left, or ctx ends.
func (r *runner) each(
	ctx context.Context, from, to State, do func(ctx context.Context, m int) error,
) error {
	var g errgroup.Group
	for m, s := range r.p.Machines {
		if s.State != from {
			continue
		}
		g.Go(func() error {
			err := do(ctx, m)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				r.leaveOut(m, err)
			default:
				r.change(func() {
					if s.State == from {
						s.State = to
					}
				})
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if n := r.count(LeftOut); n == len(r.p.Machines) {
		return fmt.Errorf("%w: %s", ErrNoMachine, r.p.Machines[0].Why)
	}
	return nil
}

// count returns how many machines are in one of some states.
func (r *runner) count(states ...State) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range r.p.Machines {
		if slices.Contains(states, m.State) {
			n++
		}
	}
	return n
}

// check measures all machines, and leaves out those that fail the limits.
func (r *runner) check(ctx context.Context) error {
	err := r.each(ctx, New, Checked, func(ctx context.Context, m int) error {
		ctx, cancel := context.WithTimeout(ctx, r.f.Timeout.Duration)
		defer cancel()
		p, address, err := probe(ctx, r.machines[m], r.place(m).claim())
		if err != nil {
			return err
		}
		spec := r.f.Machines[m]
		switch {
		case spec.Address != "":
			address = spec.Address
		case address == "" || spec.Command[0] == "sh":
			address = "127.0.0.1"
		}
		r.change(func() { r.p.Machines[m].Probe, r.p.Machines[m].Address = p, address })
		return r.f.Limits.fault(p)
	})
	if r.p.SetUp.IsZero() {
		r.printf("checked %d machines: %d take part", len(r.p.Machines),
			len(r.p.Machines)-r.count(LeftOut))
	}
	return err
}

// Check only looks at the machines of an experiment. It leaves nothing there.
func Check(ctx context.Context, f *File) []Checkup {
	all := make([]Checkup, len(f.Machines))
	var g errgroup.Group
	for i, spec := range f.Machines {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, f.Timeout.Duration)
			defer cancel()
			p, _, err := probe(ctx, Command(spec.Command), "")
			if err == nil {
				err = f.Limits.fault(p)
			}
			all[i] = Checkup{spec.Name, p, err}
			return nil
		})
	}
	_ = g.Wait() // the functions return nil
	return all
}

// Checkup is what Check found at a machine, and why it would be left out.
type Checkup struct {
	Name  string
	Probe Probe
	Fault error
}
