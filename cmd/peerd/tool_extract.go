package main

import (
	"errors"

	"github.com/spf13/cobra"

	"peerd/node/tool"
)

type toolExtractOptions struct {
	base        string
	contentType string
	json        bool
}

func newToolExtractCommand() *cobra.Command {
	var o toolExtractOptions
	cmd := &cobra.Command{
		Use:   "extract --base URL [--content-type TYPE] [--json] FILE | -",
		Short: "Print the links that the crawler finds in a page",
		Long: `Prints the links of a page in document order, one a line: the canonical URL, the
element and the attribute that it stands in, and the element's rel, with tabs in
between. With --json, each gives an object with the keys url, element, attribute
and rel.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolExtract(cmd, &o, list) },
	}
	cmd.Flags().StringVar(&o.base, "base", "", "`URL` of the page")
	cmd.Flags().StringVar(&o.contentType, "content-type", "text/html", "`TYPE` that the server says the page has, with its charset if it says one")
	jsonFlag(cmd, &o.json)
	return cmd
}

func runToolExtract(cmd *cobra.Command, o *toolExtractOptions, list []string) error {
	switch {
	case o.base == "":
		return usagef(cmd, "--base is missing: the URL of the page, which its links are relative to")
	case len(list) != 1:
		return usagef(cmd, "%d files; give the one file that holds the page, or - for stdin", len(list))
	}
	if err := tool.CheckPage(o.base); err != nil {
		return usagef(cmd, "--base %s: %w", clipped(o.base), err)
	}
	body, err := readInput(cmd, list[0], tool.MaxPage)
	if err != nil {
		return err
	}
	links, err := tool.Links(body, o.contentType, o.base)
	if errors.Is(err, tool.ErrContentType) {
		return usagef(cmd, "--content-type %s: %w", clipped(o.contentType), tool.ErrContentType)
	}
	if err != nil {
		return err
	}
	for _, l := range links {
		if o.json {
			err = printJSON(cmd.OutOrStdout(), l)
		} else {
			err = writeLine(cmd.OutOrStdout(), l.URL, l.Element, l.Attribute, l.Rel)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
