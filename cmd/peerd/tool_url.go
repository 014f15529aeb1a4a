package main

import (
	"cmp"
	"io"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/tool"
)

type toolURLOptions struct {
	tool.URLOptions
	base string
	json bool
}

func newToolURLCommand() *cobra.Command {
	var o toolURLOptions
	cmd := &cobra.Command{
		Use:   "url [--base URL] [--raw] [--parts] [--json] [--] URL... | -",
		Short: "Print the canonical form of a URL",
		Long: `Prints the canonical form of each URL, one a line, in order. Two URLs are the same
page for the crawler if their canonical forms are equal. With --raw, it prints the
serialization of the WHATWG URL Standard instead, which browsers use.

The URLs are those of the command line; after --, a URL may start with a dash. A single -
reads stdin, of which each line is a URL, including empty lines. After its last tab, a
line may have a base of its own for relative URLs; end a line with a tab if its URL
contains tabs.

An invalid URL is reported on stderr, and the exit status is 1. With --json, each URL
gives an object with the keys input, href and error, of which either href or error is
empty, and the exit status is 0. Each result is written at once. Each byte that is not
UTF-8, and each surrogate, is replaced by U+FFFD.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolURL(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.base, "base", "", "`URL` against which the others are resolved")
	cmd.Flags().BoolVar(&o.Raw, "raw", false,
		"print the form of the WHATWG URL Standard, as browsers use it")
	cmd.Flags().BoolVar(&o.Parts, "parts", false, "also print the parts of each URL")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

func runToolURL(cmd *cobra.Command, o *toolURLOptions, list []string) error {
	if len(list) == 0 {
		return cli.Usagef(cmd, "no URL; give some, or - to read them from stdin")
	}
	if o.base != "" {
		if err := tool.CheckBase(o.base); err != nil {
			return cli.Usagef(cmd, "--base %s: %w", cli.Clip(o.base), err)
		}
	}
	lines := fromStdin(list)
	failed := false
	err := eachInput(cmd, list, func(text string) error {
		q := tool.Query{Input: text}
		if lines {
			q = tool.ParseQuery(text)
		}
		res := o.URL(cmp.Or(q.Base, o.base), q.Input)
		switch {
		case o.json:
			return cli.PrintJSON(cmd.OutOrStdout(), res)
		case res.Error != "":
			failed = true
			reportInput(cmd, q.Input, res.Error)
			return nil
		}
		return printURL(cmd.OutOrStdout(), res)
	})
	if err == nil && failed {
		err = cli.ErrReported
	}
	return err
}

// printURL prints a URL, followed by its parts.
func printURL(w io.Writer, u tool.URL) error {
	if err := writeLine(w, u.Href); err != nil || u.Parts == nil {
		return err
	}
	for _, part := range []struct{ name, value string }{
		{"protocol", u.Protocol}, {"username", u.Username}, {"password", u.Password},
		{"host", u.Host}, {"hostname", u.Hostname},
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
