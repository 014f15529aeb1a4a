package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"

	"peerd/cmd/internal/cli"
)

// printLines prints the values that each reads: as JSON lines, or with line.
func printLines[T any](
	w io.Writer, asJSON bool, line func(io.Writer) func(T) error,
	each func(show func(T) error) error,
) error {
	out := bufio.NewWriterSize(w, 64<<10)
	show := line(out)
	if asJSON {
		show = func(v T) error { return cli.PrintJSON(out, v) }
	}
	return errors.Join(each(show), out.Flush())
}

// lineByLine returns a function that prints a value, before the first one a head. A table would
// have to hold all values in memory.
func lineByLine[T any](
	w io.Writer, columns string, head []any, cells func(T) []any,
) func(T) error {
	first := true
	return func(v T) error {
		if first {
			first = false
			fmt.Fprintf(w, columns, head...)
		}
		_, err := fmt.Fprintf(w, columns, cells(v)...)
		return err
	}
}

// ms formats milliseconds.
func ms(v float64) string { return fmt.Sprintf("%.1f ms", v) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// seconds formats an age.
func seconds(v float64) string {
	return time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond).String()
}
