package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/spf13/cobra"

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
		Use:   "url [--base URL] [--raw] [--parts] [--json] URL... | -",
		Short: "Print the form in which the crawler knows a URL",
		Long: `Prints the canonical form of each URL, one a line, in their order: two URLs are
one page to the crawler if their canonical forms are equal. With --raw it prints
what a browser has in its place, the serialization of the WHATWG URL Standard.

The URLs are those of the command line or, with -, the lines of stdin; behind its
last tab, a line may have a base of its own. A base is what a relative URL is
resolved against.

A URL that has no such form is told on stderr, and the exit status is 1. With
--json, each URL gives an object with the keys input, href and error, of the last
two one is empty, and the exit status is 0.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolURL(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.base, "base", "", "`URL` that the others are resolved against")
	cmd.Flags().BoolVar(&o.Raw, "raw", false, "the form of the WHATWG URL Standard, as browsers have it")
	cmd.Flags().BoolVar(&o.Parts, "parts", false, "print the parts of each URL too")
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
	lines := len(list) == 1 && list[0] == "-"
	failed := false
	err := eachInput(cmd, list, func(ref string) error {
		base := o.base
		if lines {
			if i := strings.LastIndexByte(ref, '\t'); i >= 0 {
				ref, base = ref[:i], cmp.Or(ref[i+1:], o.base)
			}
		}
		res := o.URL(base, ref)
		switch {
		case o.json:
			return printJSON(cmd.OutOrStdout(), res)
		case res.Error != "":
			failed = true
			complain(cmd, ref, res.Error)
			return nil
		}
		return printURL(cmd.OutOrStdout(), res)
	})
	if err == nil && failed {
		err = errReported
	}
	return err
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
