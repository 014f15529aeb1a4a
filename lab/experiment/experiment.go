package experiment

import "context"

// Experiment is one figure, table or comparison.
type Experiment struct {
	// Name is the argument on the command line.
	Name string
	// Title says what the experiment shows, Source where it comes from, e.g. "Malet 2009,
	// figure 5.7".
	Title, Source string
	// Command is the command line that runs it if that is not peerd-lab run, and Files are the
	// names of data files besides those of Params. Optional.
	Command string
	Files   []string
	// Needs names the flags of the data files that it requires.
	Needs []string
	// Run runs the experiment. Errors describe invalid parameters or data.
	Run func(ctx context.Context, p Params, out Out) error
}

// Params are the flags of a run. Zero values mean the experiment's default.
type Params struct {
	Seed   uint64 // first seed
	Seeds  int    // number of runs, with Seed, Seed+1, …
	Peers  int
	Sites  int
	Rounds int
	K      []int // numbers of estimations
	// Threshold lists the probing thresholds, ms.
	Threshold []float64
	// Matrix is a file of round trips, Times of response times, World of worlds of registries.
	Matrix string
	Times  string
	World  []string
	// DelayMS and RTTs convert the round trips of a matrix into response times: a log-normal
	// delay with this median, and this number of round trips.
	DelayMS float64
	RTTs    float64
	// Quick asks for a fraction of the work, for tests.
	Quick bool
	// Intervals has each seed, or each world, run by itself. The numbers of the tables are then
	// means, each followed by half of the width of its 95 % interval. Experiments ignore it.
	Intervals bool
}

// Out receives the results of an experiment. Only one goroutine may use it at a time.
type Out interface {
	// Row adds a row to a table. row is a struct with json tags; all rows of a
	// table are of one type.
	Row(table string, row any)
	// Plot adds a drawing.
	Plot(Plot)
	// Claim compares a figure of the source with ours. want is text, e.g. "27-42 % lower";
	// holds reports whether ours agrees.
	Claim(source, want, got string, holds bool)
	// Note adds a note to the report.
	Note(format string, args ...any)
	// Progress reports the finished share, 0 to 1, and the current action.
	Progress(share float64, what string)
}

// Plot is a drawing of lines or points over common axes.
type Plot struct {
	Name   string // of its file, without suffix
	Title  string
	X, Y   string // labels with units
	LogX   bool
	LogY   bool
	Series []Series
}

// Series is one line of a Plot.
type Series struct {
	Name   string
	X, Y   []float64
	Points bool // points instead of a line
}

// Or returns flag if it is set, else the experiment's default: quick if p.Quick is set,
// otherwise full.
func (p Params) Or(flag, full, quick int) int {
	switch {
	case flag > 0:
		return flag
	case p.Quick:
		return quick
	}
	return full
}
