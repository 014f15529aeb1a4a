package experiment

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"peerd/lab/internal/interval"
)

// intervalRuns is the number of runs with Params.Intervals if Seeds is 0; quickRuns if Quick is
// set.
const (
	intervalRuns = 5
	quickRuns    = 2
)

// ciSuffix ends the name of the column with the half widths of the column before it.
const ciSuffix = "_ci"

// doEach runs r once for each of its worlds, or else for each of its seeds, and returns the
// means.
func (r Run) doEach(
	ctx context.Context, stream func(Row), progress func(share float64, what string),
) (*Result, error) {
	n := len(r.Params.World)
	if n == 0 {
		n = r.Params.Or(r.Params.Seeds, intervalRuns, quickRuns)
	}
	results := make([]*Result, n)
	for i := range results {
		one := r
		one.Params.Intervals = false
		if len(r.Params.World) > 0 {
			one.Params.World = r.Params.World[i : i+1]
		} else {
			one.Params.Seed, one.Params.Seeds = r.Params.Seed+uint64(i), 1
		}
		var err error
		results[i], err = one.Do(ctx, nil, func(share float64, what string) {
			if progress != nil {
				progress((float64(i)+share)/float64(n), what)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	all := r.join(results)
	if stream != nil && len(all.Tables) > 0 {
		for _, row := range all.Tables[0].Rows {
			stream(row)
		}
	}
	return all, all.addData(append(r.Params.files(), r.Experiment.Files...))
}

// join returns the means of results of equal runs. A table of which the number of rows or the
// texts differ is left out.
func (r Run) join(results []*Result) *Result {
	all := newResult(r)
	first := results[0]
	all.Plots = first.Plots
	for i, t := range first.Tables {
		if joined := joinTables(results, i); joined != nil {
			all.Tables = append(all.Tables, joined)
		} else {
			all.Notes = append(all.Notes,
				fmt.Sprintf("Table %s is left out: its rows differ between runs.", t.Name))
		}
	}
	for i, c := range first.Claims {
		hold := 0
		for _, o := range results {
			if i < len(o.Claims) && o.Claims[i].Holds {
				hold++
			}
		}
		c.Got = fmt.Sprintf("in %d of %d runs; the first: %s", hold, len(results), c.Got)
		c.Holds = hold == len(results)
		all.Claims = append(all.Claims, c)
	}
	all.Notes = append(all.Notes, fmt.Sprintf("Means of %d runs, and half of the 95 %% interval "+
		"(Student's t). Plots and the notes below are those of the first run.", len(results)))
	all.Notes = append(all.Notes, first.Notes...)
	return all
}

// joinTables joins the i-th tables of results. It returns nil if they do not fit.
func joinTables(results []*Result, i int) *Table {
	first := results[0].Tables[i]
	for _, r := range results {
		if i >= len(r.Tables) || r.Tables[i].Name != first.Name ||
			len(r.Tables[i].Rows) != len(first.Rows) {
			return nil
		}
	}
	joined := &Table{Name: first.Name, Rows: make([]Row, len(first.Rows))}
	for col, name := range first.Columns {
		if first.interval(col) { // of a single run
			continue
		}
		means, halves := make([]any, len(first.Rows)), make([]any, len(first.Rows))
		number, differs := false, false
		for row := range first.Rows {
			cells := make([]any, len(results))
			for k, r := range results {
				cells[k] = r.Tables[i].Rows[row][col].Value
			}
			if slices.ContainsFunc(cells, func(v any) bool {
				return !reflect.DeepEqual(v, cells[0])
			}) {
				differs = true
			}
			xs, ok := numbers(cells)
			switch {
			case ok && len(xs) == len(cells):
				means[row], halves[row] = meanInterval(xs)
				number = true
			case ok: // a run has no value
				number = true
			case differs:
				return nil
			default:
				means[row] = cells[0]
			}
		}
		joined.Columns = append(joined.Columns, name)
		if number && differs {
			joined.Columns = append(joined.Columns, name+ciSuffix)
		}
		for row := range joined.Rows {
			joined.Rows[row] = append(joined.Rows[row], Cell{name, means[row]})
			if number && differs {
				joined.Rows[row] = append(joined.Rows[row], Cell{name + ciSuffix, halves[row]})
			}
		}
	}
	return joined
}

// meanInterval is interval.OfMean for cells.
func meanInterval(xs []float64) (mean, half any) { return interval.OfMean(xs) }

// numbers returns the numbers among cells. ok reports whether every cell is a number, or nil for
// one that is not finite.
func numbers(cells []any) (xs []float64, ok bool) {
	for _, c := range cells {
		v := reflect.ValueOf(c)
		switch {
		case c == nil:
		case v.CanFloat():
			xs = append(xs, v.Float())
		case v.CanInt():
			xs = append(xs, float64(v.Int()))
		case v.CanUint():
			xs = append(xs, float64(v.Uint()))
		default:
			return nil, false
		}
	}
	return xs, true
}
