package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"peerd/node/tool"
)

type toolURLOptions struct {
	tool.URLOptions
	base      string
	jsonInput bool
	json      bool
}

func newToolURLCommand() *cobra.Command {
	var o toolURLOptions
	cmd := &cobra.Command{
		Use:   "url [--base URL] [--raw] [--parts] [--json] [--] URL... | -",
		Short: "Print the form in which the crawler knows a URL",
		Long: `Prints the canonical form of each URL, one a line, in their order: two URLs are
one page to the crawler if their canonical forms are equal. With --raw it prints
what a browser has in its place, the serialization of the WHATWG URL Standard.

The URLs are those of the command line; behind --, one may begin with a dash. An
only - stands for stdin, each line of which is a URL, empty lines too. Behind its
last tab, a line may have a base of its own, which a relative URL is resolved
against; put a tab at the end of a line whose URL has tabs. With --json-input each
line is a JSON object with the keys input and base, of which base may be missing or
null: for URLs with line ends.

A URL that has no such form is told on stderr, and the exit status is 1. With
--json, each URL gives an object with the keys input, href and error: after a
failure href is empty and error is not, else it is the other way round. The exit
status is 0 then. Each answer is written at once. Text that is no UTF-8 is taken as
U+FFFD, a byte each, and so is half a surrogate pair, as a whole.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolURL(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.base, "base", "", "`URL` that the others are resolved against")
	cmd.Flags().BoolVar(&o.Raw, "raw", false, "the form of the WHATWG URL Standard, as browsers have it")
	cmd.Flags().BoolVar(&o.Parts, "parts", false, "print the parts of each URL too")
	cmd.Flags().BoolVar(&o.jsonInput, "json-input", false, "the lines of stdin are JSON objects")
	jsonFlag(cmd, &o.json)
	return cmd
}

func runToolURL(cmd *cobra.Command, o *toolURLOptions, list []string) error {
	if len(list) == 0 {
		return usagef(cmd, "no URL; give some, or - to read them from stdin")
	}
	if o.base != "" {
		if err := tool.CheckBase(o.base); err != nil {
			return usagef(cmd, "--base %s: %w", clipped(o.base), err)
		}
	}
	lines := fromStdin(list)
	if o.jsonInput && !lines {
		return usagef(cmd, "--json-input is about the lines of stdin; give - in place of URLs")
	}
	failed, n := false, 0
	err := eachInput(cmd, list, func(text string) error {
		q := tool.Question{Input: text}
		if n++; lines {
			var err error
			if q, err = o.question(text); err != nil {
				return fmt.Errorf("stdin, line %d: %w", n, err)
			}
		}
		res := o.URL(cmp.Or(q.Base, o.base), q.Input)
		switch {
		case o.json:
			return printJSON(cmd.OutOrStdout(), res)
		case res.Error != "":
			failed = true
			complain(cmd, q.Input, res.Error)
			return nil
		}
		return printURL(cmd.OutOrStdout(), res)
	})
	if err == nil && failed {
		err = errReported
	}
	return err
}

// question reads a line of stdin.
func (o *toolURLOptions) question(line string) (tool.Question, error) {
	if o.jsonInput {
		return tool.ReadQuestionJSON(line)
	}
	return tool.ReadQuestion(line), nil
}

// printURL writes a URL, and its parts below it.
func printURL(w io.Writer, u tool.URL) error {
	if err := writeLine(w, u.Href); err != nil || u.Parts == nil {
		return err
	}
	for _, part := range []struct{ name, value string }{
		{"protocol", u.Protocol}, {"username", u.Username}, {"password", u.Password}, {"host", u.Host}, {"hostname", u.Hostname},
		{"port", u.Port}, {"pathname", u.Pathname}, {"search", u.Search}, {"hash", u.Hash},
	} {
		if part.value == "" {
			continue
		}
		if err := writeLine(w, "", part.name, part.value); err != nil {
			return err
		}
	}
	return nil
}
