// Package experimenttest helps to test experiments. Of package lab, it imports only
// lab/experiment.
package experimenttest

import (
	"fmt"
	"testing"

	"peerd/lab/experiment"
)

// Out is an experiment.Out that stores what it receives.
type Out struct {
	Tables map[string][]any
	Plots  []experiment.Plot
	// Claims are sentences: whether the claim holds, its source, the wanted and the actual
	// figure.
	Claims []string
	Failed int // claims that do not hold
	Notes  []string
	Share  float64 // the largest reported one
}

// Row stores the row.
func (o *Out) Row(table string, row any) {
	if o.Tables == nil {
		o.Tables = map[string][]any{}
	}
	o.Tables[table] = append(o.Tables[table], row)
}

// Plot stores the plot.
func (o *Out) Plot(p experiment.Plot) { o.Plots = append(o.Plots, p) }

// Claim stores the claim as a sentence.
func (o *Out) Claim(source, want, got string, holds bool) {
	o.Claims = append(o.Claims, fmt.Sprintf("%v: %s: want %s, got %s", holds, source, want, got))
	if !holds {
		o.Failed++
	}
}

// Note stores the note.
func (o *Out) Note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

// Progress stores the largest share.
func (o *Out) Progress(share float64, _ string) { o.Share = max(o.Share, share) }

// Run runs an experiment and returns its results; an error ends the test.
func Run(t *testing.T, e experiment.Experiment, p experiment.Params) *Out {
	t.Helper()
	var o Out
	if err := e.Run(t.Context(), p, &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

// Rows returns the rows of a table, which have type T.
func Rows[T any](t *testing.T, o *Out, table string) []T {
	t.Helper()
	var rows []T
	for _, r := range o.Tables[table] {
		row, ok := r.(T)
		if !ok {
			t.Fatalf("table %s: a row is a %T", table, r)
		}
		rows = append(rows, row)
	}
	return rows
}
