package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"peerd/node/tool"
)

func newToolCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tool",
		Short: "Ask what the crawler makes of a URL, a robots.txt, a page",
		Long: `Answers questions of webmasters with the crawler's own code. The tools read only
their arguments, stdin and the files that they are given. They ask no peer, start
nothing and fetch nothing.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				return usagef(cmd, "unknown tool %q, want url, robots or extract", list[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newToolURLCommand(), newToolRobotsCommand(), newToolExtractCommand())
	return cmd
}

// fromStdin says whether the inputs are the lines of stdin.
func fromStdin(list []string) bool { return len(list) == 1 && list[0] == "-" }

// eachInput calls yield for each argument or, if the only one is "-", for each
// line of stdin.
func eachInput(cmd *cobra.Command, list []string, yield func(string) error) error {
	if fromStdin(list) {
		failed := error(nil)
		err := tool.Lines(cmd.InOrStdin(), func(line string) error {
			failed = yield(line)
			return failed
		})
		if err != nil && failed == nil {
			return fmt.Errorf("read stdin: %w", err)
		}
		return err
	}
	for _, s := range list {
		if err := yield(s); err != nil {
			return err
		}
	}
	return nil
}

// readInput reads a file, "-" for stdin, up to limit bytes; what is beyond is
// told on stderr and left out, as the crawler does.
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
		return nil, fmt.Errorf("read %s: %w", from, bare(err))
	}
	if more {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s is longer than %s; the crawler does not read what comes after\n",
			toolName(cmd), printable(from), size(limit))
	}
	return data, nil
}

// bare takes the name of the file off an error.
func bare(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// complain tells on stderr why one of several inputs has no answer.
func complain(cmd *cobra.Command, input, why string) {
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s: %s\n", toolName(cmd), clipped(input), oneLine(why))
}

// toolName begins the messages of a tool: "peerd: tool url".
func toolName(cmd *cobra.Command) string { return "peerd: tool " + cmd.Name() }

// clipped is an input in a message: printable, and not endless.
func clipped(s string) string {
	const most = 200
	if s == "" {
		return `""`
	}
	if len(s) > most {
		return printable(s[:most]) + "..."
	}
	return printable(s)
}

// writeLine writes a line of text for people and scripts.
func writeLine(w io.Writer, cells ...string) error {
	for i, c := range cells {
		if i > 0 {
			c = "\t" + printable(c)
		} else {
			c = printable(c)
		}
		if _, err := io.WriteString(w, c); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}
