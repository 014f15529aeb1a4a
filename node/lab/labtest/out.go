// Package labtest helps to test experiments. It may import lab alone.
package labtest

import (
	"fmt"
	"testing"

	"peerd/node/lab"
)

// Out is a lab.Out that keeps what it is told.
type Out struct {
	Tables map[string][]any
	Plots  []lab.Plot
	// Claims are sentences: whether it holds, the source, what was wanted and got.
	Claims []string
	Failed int // claims that do not hold
	Notes  []string
	Share  float64 // the largest that was told
}

// Row keeps the row as it is.
func (o *Out) Row(table string, row any) {
	if o.Tables == nil {
		o.Tables = map[string][]any{}
	}
	o.Tables[table] = append(o.Tables[table], row)
}

// Plot keeps the drawing.
func (o *Out) Plot(p lab.Plot) { o.Plots = append(o.Plots, p) }

// Claim keeps the claim as a sentence.
func (o *Out) Claim(source, want, got string, holds bool) {
	o.Claims = append(o.Claims, fmt.Sprintf("%v: %s: want %s, got %s", holds, source, want, got))
	if !holds {
		o.Failed++
	}
}

// Note keeps the remark.
func (o *Out) Note(format string, args ...any) {
	o.Notes = append(o.Notes, fmt.Sprintf(format, args...))
}

// Progress keeps the largest share.
func (o *Out) Progress(share float64, _ string) { o.Share = max(o.Share, share) }

// Run runs an experiment and returns what it has told; an error ends the test.
func Run(t *testing.T, e lab.Experiment, p lab.Params) *Out {
	t.Helper()
	var o Out
	if err := e.Run(t.Context(), p, &o); err != nil {
		t.Fatal(err)
	}
	return &o
}

// Rows are the rows of a table as the type that they are of.
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
