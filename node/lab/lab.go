package lab

import "context"

// Experiment is one figure, table or comparison.
type Experiment struct {
	// Name is the word on the command line.
	Name string
	// Title is what it shows, and Source where it comes from, e.g. "Malet 2009,
	// figure 5.7".
	Title, Source string
	// Needs names the flags of data files that it cannot do without.
	Needs []string
	// Run runs it. Errors name what is wrong with the parameters or the data.
	Run func(ctx context.Context, p Params, out Out) error
}

// Params are the flags of a run. Zero values mean the experiment's own default.
type Params struct {
	Seed   uint64 // first seed
	Seeds  int    // number of runs, with Seed, Seed+1, …
	Peers  int
	Sites  int
	Rounds int
	K      []int // numbers of estimations
	// Threshold are probing thresholds, ms.
	Threshold []float64
	// Matrix is a file of round trips, Times of response times, World of
	// registry worlds.
	Matrix string
	Times  string
	World  []string
	// DelayMS and RTTs make response times of a matrix: a log-normal delay of
	// that median and so many round trips.
	DelayMS float64
	RTTs    float64
	// Quick asks for a fraction of the work, for tests.
	Quick bool
}

// Out takes what an experiment finds. It is used by one goroutine.
type Out interface {
	// Row adds a row to a table. row is a struct with json tags; all rows of a
	// table are of one type.
	Row(table string, row any)
	// Plot adds a drawing.
	Plot(Plot)
	// Claim sets a figure of the source beside ours. want is in words, e.g.
	// "27-42 % lower"; holds says whether ours agrees.
	Claim(source, want, got string, holds bool)
	// Note adds a remark to the report.
	Note(format string, args ...any)
	// Progress tells how far it is, 0 to 1, and what it is doing.
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

// Or returns the flag if it is set, else the experiment's own figure: quick, if
// that is asked for, or full.
func (p Params) Or(flag, full, quick int) int {
	switch {
	case flag > 0:
		return flag
	case p.Quick:
		return quick
	}
	return full
}
