package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// JSONFlag adds --json.
func JSONFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON")
}

// PrintJSON writes v as one JSON value and a newline.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Table aligns rows in columns.
type Table struct{ w *tabwriter.Writer }

// NewTable returns a table that is written to w, with a header line if head is not empty.
func NewTable(w io.Writer, head ...string) *Table {
	t := &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(head) > 0 {
		fmt.Fprintln(t.w, strings.Join(head, "\t"))
	}
	return t
}

// Row adds a row. Cells may come from other peers, so control characters in them
// are replaced.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, c := range cells {
		texts[i] = Printable(fmt.Sprint(c))
		if texts[i] == "" {
			texts[i] = "-"
		}
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

// Count formats a number of things: "1 URL", "2 URLs".
func Count[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Counts adds a row with the sum of the counters and one row for each counter, sorted by name.
// It adds none if the sum is zero.
func (t *Table) Counts(name, thing string, by map[string]int64) {
	var sum int64
	for _, n := range by {
		sum += n
	}
	if sum == 0 {
		return
	}
	t.Row(name, Count(sum, thing))
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		t.Row("  "+reason, by[reason])
	}
}

// Flush writes the table.
func (t *Table) Flush() error { return t.w.Flush() }
