package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxLog is the most that is taken of one file, compressed.
const maxLog = 4 << 30

// started returns the processes of a machine that were ever started.
func (r *runner) started(m int) (all []int) {
	for _, i := range r.procs(m, Prepared, Starting, Running, Paused, Stopped, LeftOut) {
		if r.proc(i).Starts > 0 {
			all = append(all, i)
		}
	}
	return all
}

// atEnd is each for the end of an experiment: it also tries machines that were left out, which may
// answer again.
func (r *runner) atEnd(
	ctx context.Context, from, to State, do func(ctx context.Context, m int) error,
) error {
	var g errgroup.Group
	for m, s := range r.p.Machines {
		if s.State == LeftOut && s.Probe.System != "" { // else nothing was done there
			g.Go(func() error {
				if err := do(ctx, m); err != nil {
					r.printf("machine %s, which was left out: %v", r.f.Machines[m].Name, err)
				}
				return nil
			})
		}
	}
	err := r.each(ctx, from, to, do)
	_ = g.Wait() // the functions return nil
	if errors.Is(err, ErrNoMachine) {
		err = nil // there may be something to report nevertheless
	}
	return err
}

// stop stops all processes, the sites last.
func (r *runner) stop(ctx context.Context) error {
	return r.atEnd(ctx, Running, Stopped, func(ctx context.Context, m int) error {
		all := r.started(m)
		peers := all
		if len(all) > 0 && all[0] == sites {
			peers = all[1:]
			defer func() { _ = r.quit(ctx, m, all[:1]) }() // its logs are missed in the report
		}
		return r.quit(ctx, m, peers)
	})
}

func (r *runner) quit(ctx context.Context, m int, procs []int) error {
	if len(procs) == 0 {
		return nil
	}
	names, numbers := r.namesOf(procs)
	text, err := r.sh(ctx, m, r.patience(m), act(Step{Do: "quit"}, 0, names, numbers))
	if err != nil {
		return err
	}
	left := r.p.Machines[m].State == LeftOut
	got := r.answers(m, text)
	for _, i := range procs {
		if got[i][0] != "stopped" {
			return fmt.Errorf("%s did not stop", name(i))
		}
	}
	if !left {
		r.note(m, procs, text)
	}
	return nil
}

// logsOf are the files of a process, below its directory, and their names here.
func logsOf(i int) map[string]string {
	if i == sites {
		return map[string]string{"log": "sites.log.gz", "home/audit.json": "sites.audit.json.gz",
			"home/hits.jsonl": "sites.hits.jsonl.gz"}
	}
	return map[string]string{"log": name(i) + ".log.gz",
		"home/events.jsonl": name(i) + ".events.jsonl.gz"}
}

// collect copies the logs of all processes, compressed.
func (r *runner) collect(ctx context.Context) error {
	return r.atEnd(ctx, Stopped, Collected, func(ctx context.Context, m int) error {
		for _, i := range r.started(m) {
			for from, to := range logsOf(i) {
				if err := r.copyFile(ctx, m, name(i)+"/"+from, to); err != nil {
					return fmt.Errorf("collect %s of %s: %w", from, name(i), err)
				}
			}
			r.change(func() { // a report without these logs is made again
				r.proc(i).State, r.p.Reported = Collected, false
			})
		}
		return nil
	})
}

// copyFile copies one file, unless that was done before. The time limit is that for a pause
// in what arrives.
func (r *runner) copyFile(ctx context.Context, m int, from, to string) (err error) {
	to = filepath.Join(r.dir, "logs", to)
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	f, err := os.Create(to + ".part")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	limit := r.f.Timeout.Duration
	late := time.AfterFunc(limit, cancel)
	w := &limited{f, maxLog, func() { late.Reset(limit) }}
	err = r.machines[m].Run(ctx, r.place(m).enter()+file(from), nil, w)
	if !late.Stop() {
		err = fmt.Errorf("nothing arrived for %s", limit)
	}
	if err = errors.Join(err, f.Close()); err != nil || w.rest == maxLog { // there is no such file
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), to)
}

// clean removes everything from all machines, unless the file says otherwise.
func (r *runner) clean(ctx context.Context) error {
	if r.f.Keep {
		return nil
	}
	return r.atEnd(ctx, Collected, Clean, func(ctx context.Context, m int) error {
		ctx, cancel := context.WithTimeout(ctx, r.f.Timeout.Duration)
		defer cancel()
		return r.machines[m].Run(ctx, r.place(m).clean(), nil, nil)
	})
}
