package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// The exit statuses, which the help of the root commands documents.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command was tried and failed
	ExitUsage  = 2 // an invalid option, argument, setting or home directory; nothing was tried
)

// ErrReported fails a command that has already written its error to stderr.
var ErrReported = errors.New("reported")

// usageError is an error about the command line.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string {
	text := e.err.Error()
	if strings.HasSuffix(text, "?") { // a suggestion, more useful than a reference to the help
		return text
	}
	return fmt.Sprintf("%s; see %s --help", text, e.cmd.CommandPath())
}

func (e *usageError) Unwrap() error { return e.err }

// Usagef returns an error about the command line of cmd.
func Usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Errorf(format, args...)}
}

// NoArgs returns an error if there are arguments.
func NoArgs(cmd *cobra.Command, list []string) error {
	if len(list) > 0 {
		return Usagef(cmd, "%s takes no arguments, but got %q", cmd.CommandPath(), list[0])
	}
	return nil
}

// Args returns a function that demands n arguments; want says what they are.
func Args(n int, want string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if len(list) != n {
			return Usagef(cmd, "%s", want)
		}
		return nil
	}
}

// SomeArgs returns a function that demands at least one argument; without is the error if there is
// none.
func SomeArgs(without string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if len(list) == 0 {
			return Usagef(cmd, "%s", without)
		}
		return nil
	}
}

// Report writes err to w as exactly one line that begins with the program's name, and returns
// the exit status: ExitUsage for errors of Usagef and for those that wrap one of unfit, else
// ExitFailed.
func Report(w io.Writer, program string, err error, unfit ...error) int {
	if err == nil {
		return ExitOK
	}
	if !errors.Is(err, ErrReported) {
		fmt.Fprintf(w, "%s: %s\n", program, OneLine(err.Error()))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return ExitUsage
	}
	for _, u := range unfit {
		if errors.Is(err, u) {
			return ExitUsage
		}
	}
	return ExitFailed
}

// OneLine joins the lines of s and replaces control characters.
func OneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool {
		return r == '\n' || r == '\r'
	}), "; ")
	return Printable(s)
}

// Printable replaces control characters, and spaces of other widths by usual ones, for text from
// other sources.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Zs, r):
			return ' '
		case !unicode.IsPrint(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// Clip returns s for a message: printable and shortened.
func Clip(s string) string {
	const most = 200 // bytes
	if s == "" {
		return `""`
	}
	if len(s) <= most {
		return Printable(s)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return Printable(s[:end]) + "..."
}

// UnlessInterrupted returns err, or nil if it is the result of a signal that ended ctx: that is the
// usual end of a server.
func UnlessInterrupted(ctx context.Context, err error) error {
	if Interrupted(ctx, err) {
		return nil
	}
	return err
}

// Interrupted reports whether err is the result of a signal that ended ctx.
func Interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
