package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/term"
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

// NewTable returns a table that is written to w, with a header line if head is not empty. With one,
// its lines are cut at the width of w, if that is a terminal.
func NewTable(w io.Writer, head ...string) *Table {
	if f, ok := w.(*os.File); ok && len(head) > 0 {
		if width, _, err := term.GetSize(f.Fd()); err == nil && width > 0 {
			w = &cutLines{w: w, width: width}
		}
	}
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

// cutLines cuts the lines that are written to it.
type cutLines struct {
	w     io.Writer
	width int // in cells
	rest  string
}

func (c *cutLines) Write(b []byte) (int, error) {
	c.rest += string(b)
	for {
		line, rest, ok := strings.Cut(c.rest, "\n")
		if !ok {
			return len(b), nil
		}
		if _, err := fmt.Fprintln(c.w, ansi.Truncate(line, c.width, "…")); err != nil {
			return 0, err
		}
		c.rest = rest
	}
}

// Count formats a number of things: "1 URL", "2 URLs".
func Count[N int | int64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// Size formats a number of bytes in a short unit: "999 B", "1.5 kB".
func Size[N int64 | float64](n N) string {
	v := float64(n)
	if v < 1000 {
		return fmt.Sprintf("%.0f B", v)
	}
	const units = "kMGTPE"
	i := -1
	for ; v >= 999.95 && i < len(units)-1; i++ {
		v /= 1000
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
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
