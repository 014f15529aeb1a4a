package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/lab"
)

// The exit statuses, as the help of the root command promises them.
const (
	exitOK     = 0
	exitFailed = 1 // it was tried and failed
	exitUsage  = 2 // a wrong option, argument, setting or home; nothing was tried
)

// usageError is a command line that makes no sense.
type usageError struct {
	cmd *cobra.Command
	err error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v; see %s --help", e.err, e.cmd.CommandPath())
}
func (e *usageError) Unwrap() error { return e.err }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{cmd, fmt.Errorf(format, args...)}
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, list []string) error {
	if len(list) > 0 {
		return usagef(cmd, "%s takes no arguments, but got %q", cmd.CommandPath(), list[0])
	}
	return nil
}

// errReported fails a command that has said on stderr all there is to say.
var errReported = errors.New("reported")

// report writes err to w as exactly one line and returns the exit status.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintf(w, "peerd: %s\n", oneLine(err.Error()))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	for _, unfit := range []error{config.ErrInvalid, config.ErrNoHome, config.ErrKey, node.ErrOtherNetwork, node.ErrStrategy, lab.ErrParams} {
		if errors.Is(err, unfit) {
			return exitUsage
		}
	}
	return exitFailed
}

// oneLine joins the lines of s and takes out what could steer a terminal.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	return printable(s)
}

// printable replaces control characters, for texts that come from elsewhere.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// advise tells what to do when no peer runs with home.
func advise(home config.Home, err error) error {
	if errors.Is(err, admin.ErrNotRunning) {
		return fmt.Errorf("%w; start one with: peerd run --home %s", err, home.Dir)
	}
	return err
}

// interrupted says whether err only tells that ctx was ended by a signal.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}
