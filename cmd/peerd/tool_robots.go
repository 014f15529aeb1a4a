package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"peerd/node/tool"
)

type toolRobotsOptions struct {
	agent string
	file  string
	json  bool
}

func newToolRobotsCommand() *cobra.Command {
	var o toolRobotsOptions
	cmd := &cobra.Command{
		Use:   "robots --file FILE [--agent NAME] [--json] [--] URL... | -",
		Short: "Say whether a robots.txt allows a URL, and by which line",
		Long: `Says of each URL whether a crawler may fetch it by a robots.txt (RFC 9309), and
which line of the file decides. The URLs are those of the command line or, with -,
the lines of stdin; paths such as /private/x will do. Each gives one line in their
order: "allowed" or "disallowed", the URL, and the line, with tabs in between.

With --json, each gives an object with the keys url, allowed and line, 0 if no line
decides. What is no URL is told on stderr, and the exit status is 1; with --json its
object has the key error, and the exit status is 0.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolRobots(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.agent, "agent", tool.Agent, "product token of the crawler: its `NAME` in User-agent lines")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the robots.txt; - is stdin")
	jsonFlag(cmd, &o.json)
	return cmd
}

func runToolRobots(cmd *cobra.Command, o *toolRobotsOptions, list []string) error {
	switch {
	case o.file == "":
		return usagef(cmd, "--file is missing: the robots.txt to ask, or - for stdin")
	case len(list) == 0:
		return usagef(cmd, "no URL; give some, or - to read them from stdin")
	case o.file == "-" && fromStdin(list):
		return usagef(cmd, "both --file and the URLs from stdin; give one of them otherwise")
	}
	if err := tool.CheckAgent(o.agent); err != nil {
		return usagef(cmd, "--agent %q: %w", o.agent, err)
	}
	body, err := readInput(cmd, o.file, tool.MaxRobots)
	if err != nil {
		return err
	}
	robots, failed := tool.NewRobots(body), false
	err = eachInput(cmd, list, func(url string) error {
		a := robots.Ask(o.agent, url)
		switch {
		case o.json:
			return printJSON(cmd.OutOrStdout(), a)
		case a.Error != "":
			failed = true
			complain(cmd, url, a.Error)
			return nil
		}
		return printRobots(cmd.OutOrStdout(), a)
	})
	if err == nil && failed {
		err = errReported
	}
	return err
}

func printRobots(w io.Writer, a tool.RobotsAnswer) error {
	verdict, why := "disallowed", "by no line"
	if a.Allowed {
		verdict = "allowed"
	}
	if a.Line > 0 {
		why = fmt.Sprintf("line %d: %s", a.Line, a.Text)
	}
	return writeLine(w, verdict, a.URL, why)
}
