package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// ErrParams is wrapped by errors about parameters and files that are found before an
// experiment starts: unknown names, missing flags, values out of range, files that
// cannot be read. Experiments may wrap it too.
var ErrParams = errors.New("invalid parameters")

func paramsError(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrParams, fmt.Errorf(format, args...))
}

// Run is one experiment with its parameters.
type Run struct {
	Experiment Experiment
	Params     Params
}

// Find returns the experiment with the name. The error wraps ErrParams.
func Find(all []Experiment, name string) (Experiment, error) {
	var near []string
	for _, e := range all {
		if e.Name == name {
			return e, nil
		}
		if strings.Contains(e.Name, name) || strings.Contains(name, e.Name) {
			near = append(near, e.Name)
		}
	}
	if len(near) > 0 {
		return Experiment{}, paramsError("no experiment is called %q, did you mean %s?", clip(name),
			strings.Join(near, " or "))
	}
	return Experiment{}, paramsError("%q is neither an experiment nor a file; see peerd-lab list",
		clip(name))
}

// clip shortens s for a message.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// Check reports whether r can run: the required files are given and can be opened, and no
// number is out of range. Errors wrap ErrParams.
func (r Run) Check() error {
	for _, need := range r.Experiment.Needs {
		if !r.Params.has(need) {
			return paramsError("%s needs --%s FILE", r.Experiment.Name,
				strings.Join(strings.Split(need, "|"), " FILE or --"))
		}
	}
	if err := r.Params.Validate(); err != nil {
		return err
	}
	for _, name := range r.Params.files() {
		f, err := os.Open(name)
		if err != nil {
			return paramsError("%w", err)
		}
		info, err := f.Stat()
		f.Close()
		if err != nil {
			return paramsError("%w", err)
		}
		if info.IsDir() {
			return paramsError("%s is a directory, want a file", name)
		}
	}
	return nil
}

// has reports whether one of the required files is given: matrix, times, world, or several with
//
// between them.
func (p Params) has(need string) bool {
	given := map[string]bool{"matrix": p.Matrix != "", "times": p.Times != "",
		"world": len(p.World) > 0}
	return slices.ContainsFunc(strings.Split(need, "|"), func(n string) bool { return given[n] })
}

// files returns the names of all data files.
func (p Params) files() (all []string) {
	for _, name := range slices.Concat([]string{p.Matrix, p.Times}, p.World) {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// The limits of Params, beyond which a run would not end in reasonable time.
const (
	maxSeeds  = 1000
	maxPeers  = 100_000
	maxSites  = 1_000_000
	maxRounds = 1_000_000
	maxK      = 10_000
	maxMS     = 600_000
)

// Validate returns an error about the first number that is out of range. It wraps ErrParams.
func (p Params) Validate() error {
	for _, n := range []struct {
		name     string
		is, most int
	}{{"seeds", p.Seeds, maxSeeds}, {"peers", p.Peers, maxPeers}, {"sites", p.Sites, maxSites},
		{"rounds", p.Rounds, maxRounds}} {
		if n.is < 0 || n.is > n.most {
			return paramsError("--%s is %d, want 0 (the experiment's default) to %d", n.name, n.is,
				n.most)
		}
	}
	for _, k := range p.K {
		if k < 1 || k > maxK {
			return paramsError("--k is %d, want 1 to %d", k, maxK)
		}
	}
	for _, t := range p.Threshold {
		if !(t >= 0 && t <= maxMS) {
			return paramsError("--threshold is %v, want 0 to %d ms", t, maxMS)
		}
	}
	if !(p.DelayMS >= 0 && p.DelayMS <= maxMS) {
		return paramsError("--delay-ms is %v, want 0 to %d", p.DelayMS, maxMS)
	}
	if !(p.RTTs >= 0 && p.RTTs <= 1000) {
		return paramsError("--rtts is %v, want 0 to 1000", p.RTTs)
	}
	return nil
}

// Do checks r and runs it. It calls stream, if not nil, with each new row of the first table,
// and progress, if not nil, as Out.Progress.
// With Params.Intervals the rows come at the end.
func (r Run) Do(
	ctx context.Context, stream func(Row), progress func(share float64, what string),
) (*Result, error) {
	if r.Params.Seed == 0 {
		r.Params.Seed = 1
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	if r.Params.Intervals {
		return r.doEach(ctx, stream, progress)
	}
	c := &collector{res: newResult(r), stream: stream, progress: progress}
	if err := r.Experiment.Run(ctx, r.Params, c); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Experiment.Name, err)
	}
	if c.err != nil {
		return nil, fmt.Errorf("%s: %w", r.Experiment.Name, c.err)
	}
	if err := c.res.addData(append(r.Params.files(), r.Experiment.Files...)); err != nil {
		return nil, fmt.Errorf("%s: %w", r.Experiment.Name, err)
	}
	return c.res, nil
}

// finite reports whether x is neither NaN nor infinite.
func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
