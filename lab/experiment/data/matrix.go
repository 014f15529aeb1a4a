package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrMatrix means that a file is not a matrix of round trips.
var ErrMatrix = errors.New("no matrix of round trips")

// The limits of a matrix file.
const (
	maxMatrixRows   = 4096      // per slice
	maxMatrixValues = 32 << 20  // in all slices
	maxMatrixBytes  = 512 << 20 // decompressed
	maxMatrixLine   = 1 << 20
	maxMatrixMS     = 600_000 // ten minutes, more than any round trip on Earth
)

// Missing is an entry that was not measured.
const Missing = -1.0

// Matrix holds round trips among a number of nodes, in ms, at one or more times.
type Matrix struct {
	// Names are the names of the nodes; nil if the file has none.
	Names []string
	// Slices has a square matrix for each time: Slices[t][from][to], Missing where it was not
	// measured. There is at least one slice, and all have the same size.
	Slices [][][]float64
}

// LoadMatrix reads a file with ReadMatrix. Its errors name the file.
func LoadMatrix(path string) (*Matrix, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open matrix: %w", err)
	}
	defer f.Close()
	m, err := ReadMatrix(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ReadMatrix reads round trips in milliseconds from plain or gzip text. Each line is a row.
// Fields are separated by tabs, or by commas if there are no tabs, or by spaces if there are
// neither. The text is one square matrix, or time slices of one: lines of a slice number, a row
// number and the values. Rows are numbered from 0 or 1. Slices may have any numbers; the rows
// of a slice are complete and consecutive. Empty lines and lines that start with "#" are
// skipped, except that "# labels" followed by names gives the names of the nodes. So does a
// first row or, in a single matrix, a first column that is not numeric. Negative and empty
// fields, "nan", "na" and "-" are Missing. Errors wrap ErrMatrix and name the line, or are
// those of r.
func ReadMatrix(r io.Reader) (*Matrix, error) {
	src, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	limited := &io.LimitedReader{R: src, N: maxMatrixBytes + 1}
	t, err := readTable(limited)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrMatrix, maxMatrixBytes)
	}
	m, err := t.matrix()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	return m, nil
}

// table is the content of a file.
type table struct {
	header, column []string
	rows           [][]float64
	lines          []int // line number of each row
}

func readTable(r io.Reader) (*table, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxMatrixLine)
	t, values, line := &table{}, 0, 0
	for sc.Scan() {
		line++
		text := strings.Trim(sc.Text(), "\r\n")
		if labels, ok := strings.CutPrefix(text, "# labels"); ok {
			t.header = fields(strings.TrimPrefix(labels, "\t"))
			continue
		}
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f := fields(text)
		if t.rows == nil && t.column == nil && isHeader(f) {
			t.header, t.rows = f, [][]float64{}
			continue
		}
		if _, err := number(f[0]); err != nil {
			t.column = append(t.column, f[0])
			f = f[1:]
		}
		row, err := parseRow(f)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if values += len(row); values > maxMatrixValues {
			return nil, fmt.Errorf("line %d: more than %d values", line, maxMatrixValues)
		}
		t.rows, t.lines = append(t.rows, row), append(t.lines, line)
	}
	if errors.Is(sc.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d is longer than %d bytes", line+1, maxMatrixLine)
	}
	return t, sc.Err()
}

// matrix converts the table, in either of the two forms.
func (t *table) matrix() (*Matrix, error) {
	if len(t.rows) == 0 {
		return nil, errors.New("no rows")
	}
	width := len(t.rows[0])
	for i, row := range t.rows {
		if len(row) != width {
			return nil, fmt.Errorf("line %d has %d values, the first row %d", t.lines[i], len(row),
				width)
		}
	}
	if width == len(t.rows) {
		if width > maxMatrixRows {
			return nil, fmt.Errorf("more than %d rows", maxMatrixRows)
		}
		names, err := t.names(width)
		return &Matrix{Names: names, Slices: [][][]float64{t.rows}}, err
	}
	n := width - 2
	if n < 1 || len(t.column) > 0 || len(t.rows)%n != 0 {
		return nil, fmt.Errorf("%d rows of %d values are neither a square nor slices of one",
			len(t.rows), width)
	}
	return t.slices(n)
}

// slices splits the table into slices of n rows.
func (t *table) slices(n int) (*Matrix, error) {
	if n > maxMatrixRows {
		return nil, fmt.Errorf("more than %d rows", maxMatrixRows)
	}
	if len(t.header) == n+2 {
		t.header = t.header[2:]
	}
	names, err := t.names(n)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Names: names}
	first := t.rows[0][1]
	if first != 0 && first != 1 {
		return nil, fmt.Errorf("line %d: rows of a slice are counted from 0 or 1, not %v",
			t.lines[0], first)
	}
	seen := map[float64]bool{}
	for at := 0; at < len(t.rows); at += n {
		var slice [][]float64
		id := t.rows[at][0]
		if seen[id] {
			return nil, fmt.Errorf("line %d: slice %v occurs twice", t.lines[at], id)
		}
		seen[id] = true
		for i, row := range t.rows[at : at+n] {
			if row[0] != id || row[1] != first+float64(i) {
				return nil, fmt.Errorf("line %d: slice %v row %v, want slice %v row %v",
					t.lines[at+i], row[0], row[1], id, first+float64(i))
			}
			slice = append(slice, row[2:])
		}
		m.Slices = append(m.Slices, slice)
	}
	return m, nil
}

// names returns the names of n nodes from a header or a first column.
func (t *table) names(n int) ([]string, error) {
	if len(t.column) > 0 {
		if len(t.column) != n {
			return nil, fmt.Errorf("%d of %d rows have a name", len(t.column), n)
		}
		return t.column, nil
	}
	if t.header != nil && len(t.header) != n {
		return nil, fmt.Errorf("%d names for %d rows", len(t.header), n)
	}
	return t.header, nil
}

// fields splits a line at tabs, or at commas if it has no tabs, or at spaces if it has neither.
func fields(line string) []string {
	var f []string
	switch {
	case strings.Contains(line, "\t"):
		f = strings.Split(line, "\t")
	case strings.Contains(line, ","):
		f = strings.Split(line, ",")
	default:
		f = strings.Fields(line)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	if len(f) == 0 {
		f = []string{""}
	}
	return f
}

// isHeader reports whether a row consists of names: most fields after the first one are not
// numbers.
func isHeader(f []string) bool {
	bad := 0
	for _, s := range f[1:] {
		if _, err := number(s); err != nil {
			bad++
		}
	}
	return bad > 0 && 2*bad >= len(f)-1
}

func parseRow(f []string) ([]float64, error) {
	row := make([]float64, len(f))
	for i, s := range f {
		ms, err := number(s)
		if err != nil {
			return nil, err
		}
		row[i] = ms
		if ms < 0 {
			row[i] = Missing
		}
	}
	return row, nil
}

// number parses milliseconds.
func number(s string) (float64, error) {
	switch strings.ToLower(s) {
	case "", "-", "nan", "na":
		return Missing, nil
	}
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(ms) || math.IsInf(ms, 0) || ms > maxMatrixMS {
		return 0, fmt.Errorf("%q is not a round-trip time in milliseconds", clip(s))
	}
	return ms, nil
}

// clip shortens s for an error.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Len returns the number of nodes.
func (m *Matrix) Len() int { return len(m.Slices[0]) }

// Sample returns a round trip from i to j, in ms, at the given time modulo the number of
// slices. If it is missing, Sample returns that of the other direction, or that of the next
// time for which there is one; false if there is none.
func (m *Matrix) Sample(i, j, time int) (ms float64, ok bool) {
	for k := range m.Slices {
		s := m.Slices[(time+k)%len(m.Slices)]
		if s[i][j] > 0 {
			return s[i][j], true
		}
		if s[j][i] > 0 {
			return s[j][i], true
		}
	}
	return Missing, false
}

// Median returns the typical round trip of each pair: the median over the times of each
// direction, and the mean of both directions. The result is symmetric with a diagonal of 0, and
// Missing if neither direction was ever measured. A zero is not a measurement.
func (m *Matrix) Median() [][]float64 {
	n := m.Len()
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, n)
	}
	buf := make([]float64, 0, len(m.Slices))
	for i := range n {
		for j := range i {
			a, b := m.median(i, j, buf), m.median(j, i, buf)
			mean := (a + b) / 2
			if a < 0 || b < 0 {
				mean = max(a, b)
			}
			out[i][j], out[j][i] = mean, mean
		}
	}
	return out
}

func (m *Matrix) median(i, j int, buf []float64) float64 {
	buf = buf[:0]
	for _, s := range m.Slices {
		if s[i][j] > 0 {
			buf = append(buf, s[i][j])
		}
	}
	n := len(buf)
	if n == 0 {
		return Missing
	}
	slices.Sort(buf)
	return (buf[(n-1)/2] + buf[n/2]) / 2
}

// Square returns the median of the slices without missing entries, for a world that needs every
// pair: it removes nodes without more than a tenth of their pairs, and fills the pairs still
// missing with the mean of all.
func (m *Matrix) Square() [][]float64 {
	rows := m.Median()
	var keep []int
	for i, row := range rows {
		missing := 0
		for j, ms := range row {
			if j != i && ms <= 0 {
				missing++
			}
		}
		if missing*10 <= len(rows) {
			keep = append(keep, i)
		}
	}
	out, sum, count := make([][]float64, len(keep)), 0.0, 0.0
	for a, i := range keep {
		out[a] = make([]float64, len(keep))
		for b, j := range keep {
			if ms := rows[i][j]; a != b && ms > 0 {
				out[a][b] = ms
				sum, count = sum+ms, count+1
			}
		}
	}
	for a, row := range out {
		for b, ms := range row {
			if a != b && ms == 0 {
				out[a][b] = sum / count
			}
		}
	}
	return out
}
