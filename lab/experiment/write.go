package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// CheckDir creates a directory and checks that files can be written to it. The error wraps
// ErrParams.
func CheckDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return paramsError("--out: %w", err)
	}
	f, err := os.CreateTemp(dir, ".check-")
	if err != nil {
		return paramsError("--out: %w", err)
	}
	err = errors.Join(f.Close(), os.Remove(f.Name()))
	if err != nil {
		return paramsError("--out: %w", err)
	}
	return nil
}

// WriteDir writes results into a directory, which it creates: results.json, a CSV file per
// table, an SVG file per plot, and report.html, a page with all results. It replaces existing
// files of these names.
func WriteDir(dir string, results []*Result) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files, err := render(results)
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f.name), f.text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// outFile is a file to be written.
type outFile struct {
	name string
	text []byte
}

// render creates all files of a directory.
func render(results []*Result) ([]outFile, error) {
	names := fileNames(results)
	var files []outFile
	page := page{Versions: theVersions()}
	for i, r := range results {
		section := section{Result: r, Command: r.command()}
		usedCSV, usedSVG := map[string]bool{}, map[string]bool{}
		for _, t := range r.Tables {
			text, err := t.csv()
			if err != nil {
				return nil, err
			}
			files = append(files, outFile{once(usedCSV, names[i]+"."+plainName(t.Name)) + ".csv",
				text})
		}
		for _, p := range r.Plots {
			text, err := p.svg()
			if err != nil {
				return nil, fmt.Errorf("experiment: plot %s of %s: %w", p.Name, r.Name, err)
			}
			files = append(files, outFile{once(usedSVG, names[i]+"."+plainName(p.Name)) + ".svg",
				text})
			section.addPlot(p, text)
		}
		page.Sections = append(page.Sections, section)
	}
	text, err := resultsJSON(results)
	if err != nil {
		return nil, err
	}
	html, err := page.html()
	if err != nil {
		return nil, err
	}
	return append(files, outFile{"results.json", text}, outFile{"report.html", html}), nil
}

// resultsJSON returns the text of results.json. Equal results give equal bytes.
func resultsJSON(results []*Result) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err := enc.Encode(struct {
		Versions versions  `json:"versions"`
		Runs     []*Result `json:"runs"`
	}{theVersions(), results})
	return b.Bytes(), err
}

// fileNames returns the prefix of the file names of each result: its name, with a number if an
// earlier result has the same name.
func fileNames(results []*Result) []string {
	used := map[string]bool{}
	names := make([]string, len(results))
	for i, r := range results {
		names[i] = once(used, plainName(r.Name))
	}
	return names
}

// once returns name, or name-2 and so on if name is used.
func once(used map[string]bool, name string) string {
	try := name
	for i := 2; used[try]; i++ {
		try = name + "-" + strconv.Itoa(i)
	}
	used[try] = true
	return try
}

// plainName keeps only the characters that are valid in file names everywhere.
func plainName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < 128 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' ||
			r == '.') {
			return r
		}
		return '-'
	}, s)
	if s = strings.TrimLeft(s, "."); s == "" {
		return "unnamed"
	}
	return s[:min(len(s), 100)]
}

// csv returns a table as CSV (RFC 4180). It puts an apostrophe before texts that a spreadsheet
// would treat as a formula.
func (t *Table) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write(t.Columns); err != nil {
		return nil, err
	}
	for _, r := range t.Rows {
		cells := make([]string, len(r))
		for i, c := range r {
			cells[i] = c.text()
			if s, ok := c.Value.(string); ok && s != "" && strings.ContainsRune("=+-@\t\r",
				rune(s[0])) {
				cells[i] = "'" + s
			}
		}
		if err := w.Write(cells); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// text returns a cell as text, with all digits.
func (c Cell) text() string {
	switch v := c.Value.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(c.Value)
}

// short returns a cell as text for people: numbers have four digits.
func (c Cell) short() string {
	v, ok := c.Value.(float64)
	switch {
	case c.Value == nil:
		return "-"
	case !ok:
		return c.text()
	case v == float64(int64(v)) && v < 1e12 && v > -1e12:
		return strconv.FormatInt(int64(v), 10)
	case v >= 1000 || v <= -1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// shownRows is the maximum number of rows of a table that WriteText prints.
const shownRows = 60

// WriteText writes a result as text: tables, claims, notes.
func WriteText(w io.Writer, r *Result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(tw, "%s: %s (%s)\n", r.Name, r.Title, r.Source)
	for _, t := range r.Tables {
		var columns []string
		for i, c := range t.Columns {
			if !t.interval(i) {
				columns = append(columns, c)
			}
		}
		fmt.Fprintf(tw, "\n%s\n%s\n", printable(t.Name), strings.Join(columns, "\t"))
		for i, row := range t.Rows {
			if i == shownRows {
				fmt.Fprintf(tw, "... %d more, see --out\n", len(t.Rows)-i)
				break
			}
			var cells []string
			for j, c := range row {
				if text := printable(c.short()); !t.interval(j) {
					cells = append(cells, text)
				} else if c.Value != nil {
					cells[len(cells)-1] += " ± " + text
				}
			}
			fmt.Fprintln(tw, strings.Join(cells, "\t"))
		}
	}
	if len(r.Claims) > 0 {
		fmt.Fprintf(tw, "\nsource\tsays\there\tholds\n")
		for _, c := range r.Claims {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", printable(c.Source), printable(c.Want),
				printable(c.Got), yes(c.Holds))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(tw)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(tw, printable(n))
	}
	return tw.Flush()
}

// interval reports whether a column has the half widths of the one before it.
func (t *Table) interval(col int) bool {
	return col > 0 && t.Columns[col] == t.Columns[col-1]+ciSuffix
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// printable replaces control characters, because names may come from data files.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
