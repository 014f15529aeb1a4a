package wan

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// The limits of a matrix file.
const (
	maxMatrixRows  = 4096
	maxMatrixBytes = 256 << 20 // decompressed
	maxMatrixMS    = 600_000   // ten minutes: nothing on earth is further
)

// LoadMatrix reads a square matrix of round-trip times in milliseconds, plain
// or gzip (told by its first bytes). One row a line; fields are separated by
// tabs, else by commas, else by spaces. Empty lines and lines that start with
// "#" are skipped, but "# labels" followed by names gives the names. A first
// row or a first column that is not numbers gives the names too. Negative and
// empty fields, "nan" and "-" mean missing and come out as -1. Errors wrap
// ErrMatrix or are those of r.
func LoadMatrix(r io.Reader) (names []string, rtt [][]time.Duration, err error) {
	br := bufio.NewReader(r)
	var src io.Reader = br
	if magic, _ := br.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(br)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrMatrix, err)
		}
		src = zr
	}
	return parseMatrix(io.LimitReader(src, maxMatrixBytes))
}

func parseMatrix(r io.Reader) (names []string, rtt [][]time.Duration, err error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), 16<<20)
	var rowNames []string
	for line := 1; sc.Scan(); line++ {
		text := strings.Trim(sc.Text(), "\r\n")
		if labels, ok := strings.CutPrefix(text, "# labels"); ok {
			names = fields(strings.TrimPrefix(labels, "\t"))
			continue
		}
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f := fields(text)
		if rtt == nil && rowNames == nil && isHeader(f) {
			names, rtt = f, [][]time.Duration{}
			continue
		}
		if _, err := number(f[0]); err != nil {
			rowNames = append(rowNames, strings.TrimSpace(f[0]))
			f = f[1:]
		}
		row, err := parseRow(f)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: line %d: %w", ErrMatrix, line, err)
		}
		if rtt = append(rtt, row); len(rtt) > maxMatrixRows {
			return nil, nil, fmt.Errorf("%w: more than %d rows", ErrMatrix, maxMatrixRows)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	if names, err = matrixNames(names, rowNames, len(rtt)); err != nil {
		return nil, nil, err
	}
	return names, rtt, checkSquare(rtt)
}

// matrixNames settles the names of n rows from a header and a first column.
func matrixNames(header, column []string, n int) ([]string, error) {
	if len(column) > 0 {
		if len(column) != n {
			return nil, fmt.Errorf("%w: %d of %d rows have a name", ErrMatrix, len(column), n)
		}
		return column, nil
	}
	if header != nil && len(header) != n {
		return nil, fmt.Errorf("%w: %d names for %d rows", ErrMatrix, len(header), n)
	}
	return header, nil
}

func checkSquare(rtt [][]time.Duration) error {
	if len(rtt) == 0 {
		return fmt.Errorf("%w: no rows", ErrMatrix)
	}
	for i, row := range rtt {
		if len(row) != len(rtt) {
			return fmt.Errorf("%w: row %d has %d entries, want %d", ErrMatrix, i, len(row), len(rtt))
		}
	}
	return nil
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

func parseRow(f []string) ([]time.Duration, error) {
	row := make([]time.Duration, len(f))
	for i, s := range f {
		ms, err := number(s)
		if err != nil {
			return nil, err
		}
		row[i] = time.Duration(ms * float64(time.Millisecond))
		if ms < 0 {
			row[i] = -1
		}
	}
	return row, nil
}

// number reads milliseconds; -1 is a missing entry.
func number(s string) (float64, error) {
	switch strings.ToLower(s) {
	case "", "-", "nan", "na":
		return -1, nil
	}
	ms, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(ms, 0) || ms > maxMatrixMS {
		return 0, fmt.Errorf("%q is no round-trip time in milliseconds", s)
	}
	return ms, nil
}

// complete returns a symmetric copy of rtt without holes.
func complete(rtt [][]time.Duration) ([][]time.Duration, error) {
	if err := checkSquare(rtt); err != nil {
		return nil, err
	}
	n := len(rtt)
	sym := make([][]time.Duration, n)
	for i := range sym {
		sym[i] = make([]time.Duration, n)
		for j := range sym[i] {
			sym[i][j] = average(rtt[i][j], rtt[j][i])
		}
		if sym[i][i] <= 0 {
			sym[i][i] = sameSite
		}
	}
	for i := range n {
		for j := range i {
			if sym[i][j] >= 0 {
				continue
			}
			d, ok := detour(sym, i, j)
			if !ok {
				return nil, fmt.Errorf("%w: nothing joins rows %d and %d", ErrMatrix, j, i)
			}
			sym[i][j], sym[j][i] = d, d
		}
	}
	return sym, nil
}

// average is the mean of what is there of two entries; -1 when nothing is.
func average(a, b time.Duration) time.Duration {
	switch {
	case a < 0:
		return max(b, -1)
	case b < 0:
		return a
	}
	return (a + b) / 2
}

// detour is the shortest path from i to j over one third row.
func detour(m [][]time.Duration, i, j int) (best time.Duration, ok bool) {
	for k := range m {
		if k == i || k == j || m[i][k] < 0 || m[k][j] < 0 {
			continue
		}
		if d := m[i][k] + m[k][j]; !ok || d < best {
			best, ok = d, true
		}
	}
	return best, ok
}
