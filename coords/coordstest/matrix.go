package coordstest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// matrixMax bounds the size of an uncompressed matrix in bytes.
const matrixMax = 256 << 20

// ReadMatrix reads a square matrix of round trips: one row per line, milliseconds
// separated by tabs; lines starting with # are comments; gzip is detected. It averages
// the two directions, clears the diagonal, drops nodes without measurements (negative
// values) for more than a tenth of their pairs, and fills the remaining gaps with the
// mean.
func ReadMatrix(r io.Reader) ([][]float64, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("read matrix: %w", err)
		}
		in = bufio.NewReader(z)
	}
	var rows [][]float64
	lines := bufio.NewScanner(io.LimitReader(in, matrixMax))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		var row []float64
		for _, field := range strings.Split(line, "\t") {
			x, err := strconv.ParseFloat(field, 64)
			if err != nil {
				return nil, fmt.Errorf("read matrix: row %d: %w", len(rows), err)
			}
			row = append(row, x)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read matrix: %w", err)
	}
	for i, row := range rows {
		if len(row) != len(rows) {
			return nil, fmt.Errorf("read matrix: row %d has %d of %d columns", i, len(row),
				len(rows))
		}
	}
	return complete(rows), nil
}

// complete makes a matrix symmetric and fills its gaps.
func complete(rows [][]float64) [][]float64 {
	var keep []int
	for i := range rows {
		missing := 0
		for j := range rows {
			if i != j && both(rows, i, j) <= 0 {
				missing++
			}
		}
		if missing*10 <= len(rows) {
			keep = append(keep, i)
		}
	}
	out, sum, count := square(len(keep)), 0.0, 0.0
	for a, i := range keep {
		for b, j := range keep {
			if x := both(rows, i, j); i != j && x > 0 {
				out[a][b] = x
				sum += x
				count++
			}
		}
	}
	for a := range out {
		for b := range out {
			if a != b && out[a][b] == 0 {
				out[a][b] = sum / count
			}
		}
	}
	return out
}

// both returns the mean of the two directions, or the one that is known.
func both(rows [][]float64, i, j int) float64 {
	a, b := rows[i][j], rows[j][i]
	switch {
	case a <= 0:
		return b
	case b <= 0:
		return a
	}
	return (a + b) / 2
}
