package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"peerd/cmd/internal/cli"
	"peerd/node/tool"
)

type toolExtractOptions struct {
	base        string
	contentType string
	headers     []string
	css, follow bool
	json        bool
}

func newToolExtractCommand() *cobra.Command {
	var o toolExtractOptions
	cmd := &cobra.Command{
		Use: "extract --base URL [--header 'NAME: VALUE']... [--css | --follow] [--json] " +
			"FILE | -",
		Short: "Print the links that the crawler finds in a page",
		Long: `Prints the links of a page in document order, one a line: the canonical URL, the
element and the attribute of the link, and the rel of the element, separated by tabs.
With --json, it prints an object with the keys url, element, attribute and rel for each.
A refresh by meta has the element meta and the attribute content. Links of the header
come first; their element is http, and their attribute is link or refresh.

It prints all kinds of references, as often as they occur: pages, images and other
media, and forms that send GET; with --css, also those in style sheets within the page.
With --follow, it prints only what a network follows by default: links to pages, each
once and without session IDs, and none of a page that forbids it, which is reported on
stderr.

--header adds a header of the response and may be repeated. Content-Type, Link, Refresh
and X-Robots-Tag are used, others are ignored.`,
		RunE: func(cmd *cobra.Command, list []string) error {
			return runToolExtract(cmd, &o, list)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "`URL` of the page")
	f.StringVar(&o.contentType, "content-type", "text/html",
		"content `TYPE` from the server, with its charset if there is one")
	f.StringArrayVar(&o.headers, "header", nil,
		"header of the response, as `'NAME: VALUE'`; repeatable")
	f.BoolVar(&o.css, "css", false, "include references in style sheets within the page")
	f.BoolVar(&o.follow, "follow", false, "include only what the crawler follows by default")
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
	case o.css && o.follow:
		return cli.Usagef(cmd,
			"got both --css and --follow: style sheets are not followed by default")
	}
	if err := tool.CheckPage(o.base); err != nil {
		return cli.Usagef(cmd, "--base %s: %w", cli.Clip(o.base), err)
	}
	header, err := o.header(cmd)
	if err != nil {
		return err
	}
	body, err := readInput(cmd, list[0], tool.MaxPage)
	if err != nil {
		return err
	}
	found, err := tool.Page{
		URL: o.base, Header: header, Body: body, Styles: o.css, Follow: o.follow,
	}.Links()
	if errors.Is(err, tool.ErrContentType) {
		return cli.Usagef(cmd, "content type %s: %w", cli.Clip(header.Get("Content-Type")),
			tool.ErrContentType)
	}
	if err != nil {
		return err
	}
	if o.follow && found.NoFollow {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"%s: the page forbids crawlers to follow its links (robots nofollow)\n", toolName(cmd))
	}
	if found.Dropped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: omitted %d more links, like the crawler\n",
			toolName(cmd), found.Dropped)
	}
	return o.print(cmd, found.List)
}

// header returns the headers of the response.
func (o *toolExtractOptions) header(cmd *cobra.Command) (http.Header, error) {
	h := http.Header{}
	for _, s := range o.headers {
		name, value, ok := strings.Cut(s, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, cli.Usagef(cmd, "--header %s: want 'NAME: VALUE'", cli.Clip(s))
		}
		h.Add(name, value)
	}
	switch {
	case h.Get("Content-Type") == "":
		h.Set("Content-Type", o.contentType)
	case cmd.Flags().Changed("content-type"):
		return nil, cli.Usagef(cmd, "got both --content-type and --header 'Content-Type: ...'")
	}
	return h, nil
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
