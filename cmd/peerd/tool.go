package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/tool"
)

func newToolCommand() *cobra.Command {
	return cli.NewGroup("tool", "Show how the crawler reads a URL, a robots.txt or a page",
		`Answers questions of webmasters with the crawler's own code. The tools read only
their arguments, stdin and the files that they are given. They contact no peer and fetch
nothing.`,
		newToolURLCommand(), newToolRobotsCommand(), newToolExtractCommand())
}

// fromStdin reports whether the inputs are the lines of stdin.
func fromStdin(list []string) bool { return len(list) == 1 && list[0] == "-" }

// eachInput calls yield for each argument or, if the only one is "-", for each
// line of stdin.
func eachInput(cmd *cobra.Command, list []string, yield func(string) error) error {
	if fromStdin(list) {
		for line, err := range tool.Lines(cmd.InOrStdin()) {
			if err != nil {
				return fmt.Errorf("read stdin: %w", err)
			}
			if err := yield(line); err != nil {
				return err
			}
		}
		return nil
	}
	for _, s := range list {
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}

// readInput reads the first limit bytes of a file, or of stdin for "-". Like the crawler, it
// ignores the rest; it prints a message about that.
func readInput(cmd *cobra.Command, name string, limit int64) ([]byte, error) {
	in, from := cmd.InOrStdin(), "stdin"
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in, from = f, name
	}
	data, more, err := tool.ReadAtMost(in, limit)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", from, withoutPath(err))
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"%s: %s is longer than %s; the crawler ignores the rest\n",
			toolName(cmd), cli.Printable(from), cli.Size(limit))
	}
	return data, nil
}

// withoutPath removes the name of the file from an error.
func withoutPath(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// reportInput prints why one of several inputs has no result.
func reportInput(cmd *cobra.Command, input, why string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %s\n", toolName(cmd), cli.Clip(input), cli.OneLine(why))
}

// toolName returns the prefix of the messages of a tool: "peerd: tool url".
func toolName(cmd *cobra.Command) string { return "peerd: tool " + cmd.Name() }

// writeLine writes a line of text for people and scripts.
func writeLine(w io.Writer, cells ...string) error {
	for i, c := range cells {
		cells[i] = cli.Printable(c)
	}
	_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
	return err
}
