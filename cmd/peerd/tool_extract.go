package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/tool"
)

type toolExtractOptions struct {
	base, contentType string
	json              bool
}

func newToolExtractCommand() *cobra.Command {
	var o toolExtractOptions
	cmd := &cobra.Command{
		Use:   "extract --base URL [--json] FILE | -",
		Short: "Print the links that the crawler finds in a page",
		Long: `Prints the links of a page in document order, one a line: the canonical URL, the
element and the attribute of the link, and the rel of the element, separated by tabs.
With --json, it prints an object with the keys url, element, attribute and rel for each.
A refresh by meta has the element meta and the attribute content.

It prints references to pages, images and other media, and forms that send GET, as often
as they occur.`,
		RunE: func(cmd *cobra.Command, list []string) error {
			return runToolExtract(cmd, &o, list)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "`URL` of the page")
	f.StringVar(&o.contentType, "content-type", "text/html",
		"content `TYPE` from the server, with its charset if there is one")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

func runToolExtract(cmd *cobra.Command, o *toolExtractOptions, list []string) error {
	switch {
	case o.base == "":
		return cli.Usagef(cmd,
			"--base is missing: the URL of the page")
	case len(list) != 1:
		return cli.Usagef(cmd, "got %d files, want the file with the page, or - for stdin",
			len(list))
	}
	if err := tool.CheckPage(o.base); err != nil {
		return cli.Usagef(cmd, "--base %s: %w", cli.Clip(o.base), err)
	}
	body, err := readInput(cmd, list[0], tool.MaxPage)
	if err != nil {
		return err
	}
	links, dropped, err := tool.Links(o.base, o.contentType, body)
	if errors.Is(err, tool.ErrContentType) {
		return cli.Usagef(cmd, "content type %s: %w", cli.Clip(o.contentType),
			tool.ErrContentType)
	}
	if err != nil {
		return err
	}
	if dropped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: omitted %d more links, like the crawler\n",
			toolName(cmd), dropped)
	}
	return o.print(cmd, links)
}

func (o *toolExtractOptions) print(cmd *cobra.Command, links []tool.Link) error {
	for _, l := range links {
		var err error
		if o.json {
			err = cli.PrintJSON(cmd.OutOrStdout(), l)
		} else {
			err = writeLine(cmd.OutOrStdout(), l.URL, l.Element, l.Attribute, l.Rel)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
