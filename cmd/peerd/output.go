package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes v as one JSON value and a line end.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// table aligns rows in columns. A row is written as one string with tabs
// between its cells.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *table {
	t := &table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		fmt.Fprintln(t.w, strings.Join(head, "\t"))
	}
	return t
}

// row adds a row. Cells may come from other peers, so nothing in them steers
// the terminal.
func (t *table) row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = printable(fmt.Sprint(c))
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// counts adds a row with the sum of the counters and one for each of them, by
// name; none if there is none.
func (t *table) counts(name, what string, by map[string]int64) {
	var sum int64
	for _, n := range by {
		sum += n
	}
	if sum == 0 {
		return
	}
	t.row(name, fmt.Sprintf("%d %s", sum, what))
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		t.row("  "+reason, by[reason])
	}
}

func (t *table) flush() error { return t.w.Flush() }

// ms writes milliseconds.
func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }

// size writes a number of bytes in a unit that keeps it short.
func size(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 999.95 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// seconds writes an age.
func seconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond).String()
}
