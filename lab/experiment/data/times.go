package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// ErrTimes means that a file has no response times.
var ErrTimes = errors.New("no response times")

// The limits of a file of response times.
const (
	maxTimesRows   = 1 << 16   // in all slots
	maxTimesValues = 64 << 20  // in all rows
	maxTimesBytes  = 512 << 20 // decompressed
	maxTimesLine   = 1 << 20
	maxTimesMS     = 3_600_000 // an hour
)

// Times holds response times of servers as measured by users, in ms, at one or more times.
type Times struct {
	// Slots is Slots[slot][user][server]; negative values are missing. There is at least one
	// slot, and all have the same size.
	Slots [][][]float32
}

// LoadTimes reads a file with ReadTimes. Its errors name the file.
func LoadTimes(path string) (*Times, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open response times: %w", err)
	}
	defer f.Close()
	t, err := ReadTimes(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// timesRow is one line.
type timesRow struct {
	line   int
	values []float32
}

// ReadTimes reads response times in ms from plain or gzip text: one user per line, one server
// per column, separated by tabs or blanks. Negative values are missing. Lines that are empty or
// start with # are skipped.
//
// A file of several slots has two more columns in front, slot and user: whole numbers by which
// the lines are sorted. That is also how ReadTimes recognises it. A user without a line in a
// slot was not measured then. Errors wrap ErrTimes and name the line.
func ReadTimes(r io.Reader) (*Times, error) {
	in, err := plain(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTimes, err)
	}
	limited := &io.LimitedReader{R: in, N: maxTimesBytes}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxTimesLine)
	var rows []timesRow
	values := 0
	number := 0
	for lines.Scan() {
		number++
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		fields := strings.Fields(text)
		if values += len(fields); len(rows) >= maxTimesRows || values > maxTimesValues {
			return nil, fmt.Errorf("%w: line %d: more than %d rows or %d values", ErrTimes, number,
				maxTimesRows, maxTimesValues)
		}
		if len(rows) > 0 && len(fields) != len(rows[0].values) {
			return nil, fmt.Errorf("%w: line %d has %d columns, line %d has %d",
				ErrTimes, number, len(fields), rows[0].line, len(rows[0].values))
		}
		row := timesRow{line: number, values: make([]float32, len(fields))}
		for i, f := range fields {
			x, err := strconv.ParseFloat(f, 32)
			if err != nil || !(x <= maxTimesMS) {
				return nil, fmt.Errorf("%w: line %d: column %d is %.20q, want ms up to %d",
					ErrTimes, number, i+1, f, maxTimesMS)
			}
			row.values[i] = float32(x)
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%w: line %d: %w", ErrTimes, number+1, err)
	}
	if limited.N <= 0 {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTimes, maxTimesBytes)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: no line with numbers", ErrTimes)
	}
	if slotted(rows) {
		return bySlot(rows), nil
	}
	var users [][]float32
	for _, r := range rows {
		users = append(users, r.values)
	}
	return &Times{Slots: [][][]float32{users}}, nil
}

// slotted reports whether the first two columns are slot and user: whole numbers, strictly
// sorted by both. Measured times are never sorted in more than a few lines.
func slotted(rows []timesRow) bool {
	if len(rows) < 2 || len(rows[0].values) < 3 || rows[0].values[0] != rows[1].values[0] {
		return false
	}
	for i, r := range rows {
		slot, user := r.values[0], r.values[1]
		if slot < 0 || user < 0 || slot >= maxTimesRows || user >= maxTimesRows ||
			slot != float32(int(slot)) || user != float32(int(user)) {
			return false
		}
		if i > 0 {
			last := rows[i-1].values
			if slot < last[0] || slot == last[0] && user <= last[1] {
				return false
			}
		}
	}
	return true
}

// bySlot converts rows for which slotted is true.
func bySlot(rows []timesRow) *Times {
	index := make(map[float32]int) // user to row
	for _, r := range rows {
		if _, ok := index[r.values[1]]; !ok {
			index[r.values[1]] = len(index)
		}
	}
	none := make([]float32, len(rows[0].values)-2)
	for i := range none {
		none[i] = -1
	}
	t := new(Times)
	for i, r := range rows {
		if i == 0 || r.values[0] != rows[i-1].values[0] {
			users := make([][]float32, len(index))
			for u := range users {
				users[u] = none
			}
			t.Slots = append(t.Slots, users)
		}
		t.Slots[len(t.Slots)-1][index[r.values[1]]] = r.values[2:]
	}
	return t
}
