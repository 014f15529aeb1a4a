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

// ErrMatrix says that a file holds no matrix of round trips.
var ErrMatrix = errors.New("no matrix of round trips")

// The limits of a matrix file.
const (
	maxMatrixRows   = 4096      // of a slice
	maxMatrixValues = 32 << 20  // of all slices
	maxMatrixBytes  = 512 << 20 // unpacked
	maxMatrixLine   = 1 << 20
	maxMatrixMS     = 600_000 // ten minutes: nothing on earth is further
)

// Missing is an entry that was not measured.
const Missing = -1.0

// Matrix holds round trips among a number of nodes, in ms, at one or more times.
type Matrix struct {
	// Names are those of the nodes; nil when the file has none.
	Names []string
	// Slices has a square matrix for each time: Slices[t][from][to], Missing
	// where nothing is known. There is at least one, and all have one size.
	Slices [][][]float64
}

// LoadMatrix reads a file with ReadMatrix. The errors name it.
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

// ReadMatrix reads round trips in milliseconds, plain or gzip (told by its first
// bytes). One row a line; fields are separated by tabs, else by commas, else by
// spaces. It takes one square matrix, or time slices of one: lines of slice, row
// and then the values, with rows counted from 0 or 1 and slices in any numbers,
// each slice complete and in one piece. Empty lines and lines that start with
// "#" are skipped, but "# labels" followed by names gives the names; so does a
// first row or, in a single matrix, a first column that is not numbers. Negative
// and empty fields, "nan", "na" and "-" are Missing. Errors wrap ErrMatrix, and
// name the line, or are those of r.
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

// table is a file of numbers as it stands there.
type table struct {
	header, column []string
	rows           [][]float64
	lines          []int // where each row stands
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

// matrix finds out which of the two forms the table has.
func (t *table) matrix() (*Matrix, error) {
	if len(t.rows) == 0 {
		return nil, errors.New("no rows")
	}
	width := len(t.rows[0])
	for i, row := range t.rows {
		if len(row) != width {
			return nil, fmt.Errorf("line %d has %d values, the first row %d", t.lines[i], len(row), width)
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
		return nil, fmt.Errorf("%d rows of %d values are neither a square nor slices of one", len(t.rows), width)
	}
	return t.slices(n)
}

// slices takes the table apart into slices of n rows.
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
		return nil, fmt.Errorf("line %d: rows of a slice are counted from 0 or 1, not %v", t.lines[0], first)
	}
	seen := map[float64]bool{}
	for at := 0; at < len(t.rows); at += n {
		var slice [][]float64
		id := t.rows[at][0]
		if seen[id] {
			return nil, fmt.Errorf("line %d: slice %v was there before", t.lines[at], id)
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

// names settles the names of n nodes from a header and a first column.
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

// fields splits a line at its strongest separator.
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

// isHeader tells whether a row holds names: most of what follows its first
// field is no number.
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

// number reads milliseconds.
func number(s string) (float64, error) {
	switch strings.ToLower(s) {
	case "", "-", "nan", "na":
		return Missing, nil
	}
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(ms) || math.IsInf(ms, 0) || ms > maxMatrixMS {
		return 0, fmt.Errorf("%q is no round-trip time in milliseconds", clip(s))
	}
	return ms, nil
}

// clip shortens what is quoted in an error.
func clip(s string) string {
	const most = 40
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Len is the number of nodes.
func (m *Matrix) Len() int { return len(m.Slices[0]) }

// Sample is one round trip from i to j, in ms, at the given time, which is taken
// modulo their number. When that one is missing it is the other direction's, and
// if that is missing too the next time's; false when there is none at all.
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

// Median is what a pair's round trip usually is: for each direction the median
// over the times, and of the two the mean. The result is symmetric, its diagonal
// 0, and Missing where neither direction was ever measured. Zero does not count
// as a measurement.
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

// Square returns the median of the slices without holes, for a world that needs
// every pair: nodes that miss more than a tenth of their pairs are left out, and
// pairs still missing get the mean of all.
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
