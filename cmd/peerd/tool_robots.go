package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
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
		Short: "Show whether a robots.txt allows a URL, and by which line",
		Long: `Shows for each URL whether a crawler may fetch it according to a robots.txt (RFC
9309), and which line of the file decides it. The URLs are those of the command line or,
with -, the lines of stdin; paths such as /private/x are allowed. Each URL gives one
line, in order: "allowed" or "disallowed", the URL, and the deciding line, separated by
tabs.

With --json, it prints an object with the keys url, allowed and line for each URL; line
is 0 if no line decides. An invalid URL is reported on stderr, and the exit status is 1;
with --json, its object has the key error, and the exit status is 0.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolRobots(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.agent, "agent", tool.Agent,
		"product token of the crawler, its `NAME` in User-agent lines")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "the robots.txt; - is stdin")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

func runToolRobots(cmd *cobra.Command, o *toolRobotsOptions, list []string) error {
	switch {
	case o.file == "":
		return cli.Usagef(cmd, "--file is missing: the robots.txt, or - for stdin")
	case len(list) == 0:
		return cli.Usagef(cmd, "no URL; give some, or - to read them from stdin")
	case o.file == "-" && fromStdin(list):
		return cli.Usagef(cmd, "both --file and the URLs are stdin")
	}
	if err := tool.CheckAgent(o.agent); err != nil {
		return cli.Usagef(cmd, "--agent %q: %w", o.agent, err)
	}
	body, err := readInput(cmd, o.file, tool.MaxRobots)
	if err != nil {
		return err
	}
	robots, failed := tool.NewRobots(body), false
	err = eachInput(cmd, list, func(url string) error {
		a := robots.Check(o.agent, url)
		switch {
		case o.json:
			return cli.PrintJSON(cmd.OutOrStdout(), a)
		case a.Error != "":
			failed = true
			reportInput(cmd, url, a.Error)
			return nil
		}
		return printRobots(cmd.OutOrStdout(), a)
	})
	if err == nil && failed {
		err = cli.ErrReported
	}
	return err
}

func printRobots(w io.Writer, a tool.RobotsResult) error {
	verdict, why := "disallowed", "no line"
	if a.Allowed {
		verdict = "allowed"
	}
	if a.Line > 0 {
		why = fmt.Sprintf("line %d: %s", a.Line, a.Text)
	}
	return writeLine(w, verdict, a.URL, why)
}
