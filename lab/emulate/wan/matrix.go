package wan

import (
	"fmt"
	"io"
	"time"

	"peerd/lab/experiment/data"
)

// LoadMatrix reads a matrix of round-trip times in one of the formats of
// data.ReadMatrix. Of several time slices it takes the median of each pair. Missing
// entries are -1. Errors wrap ErrMatrix.
func LoadMatrix(r io.Reader) (names []string, rtt [][]time.Duration, err error) {
	m, err := data.ReadMatrix(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrMatrix, err)
	}
	rows := m.Slices[0]
	if len(m.Slices) > 1 {
		rows = m.Median()
	}
	for _, row := range rows {
		out := make([]time.Duration, len(row))
		for i, ms := range row {
			if out[i] = time.Duration(ms * float64(time.Millisecond)); ms < 0 {
				out[i] = -1
			}
		}
		rtt = append(rtt, out)
	}
	return m.Names, rtt, nil
}

func checkSquare(rtt [][]time.Duration) error {
	if len(rtt) == 0 {
		return fmt.Errorf("%w: no rows", ErrMatrix)
	}
	for i, row := range rtt {
		if len(row) != len(rtt) {
			return fmt.Errorf("%w: row %d has %d entries, want %d", ErrMatrix, i, len(row),
				len(rtt))
		}
	}
	return nil
}

// complete returns a symmetric copy of rtt without missing entries.
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
				return nil, fmt.Errorf("%w: no path between rows %d and %d", ErrMatrix, j, i)
			}
			sym[i][j], sym[j][i] = d, d
		}
	}
	return sym, nil
}

// average returns the mean of the entries that are not missing; -1 if both are.
func average(a, b time.Duration) time.Duration {
	switch {
	case a < 0:
		return max(b, -1)
	case b < 0:
		return a
	}
	return (a + b) / 2
}

// detour returns the length of the shortest path from i to j over one other row.
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
