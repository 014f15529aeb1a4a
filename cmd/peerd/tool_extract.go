package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

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
		Use:   "extract --base URL [--header 'NAME: VALUE']... [--css | --follow] [--json] FILE | -",
		Short: "Print the links that the crawler finds in a page",
		Long: `Prints the links of a page in document order, one a line: the canonical URL, the
element and the attribute that it stands in, and the element's rel, with tabs in
between. With --json, each gives an object with the keys url, element, attribute
and rel. A refresh by meta is element meta, attribute content. Links of the
header come first; their element is http, their attribute link or refresh.

All kinds of references are shown, as often as they occur: pages, images and other
media, forms that send GET; with --css, those in style sheets within the page too.
With --follow only what a network follows that does not say otherwise: pages, each
once, without session ids in their URLs, and nothing of a page that asks crawlers
not to follow, which is told on stderr.

--header gives a header of the answer and may be repeated. Content-Type, Link,
Refresh and X-Robots-Tag count, others do no harm.`,
		RunE: func(cmd *cobra.Command, list []string) error { return runToolExtract(cmd, &o, list) },
	}
	f := cmd.Flags()
	f.StringVar(&o.base, "base", "", "`URL` of the page")
	f.StringVar(&o.contentType, "content-type", "text/html", "`TYPE` that the server says the page has, with its charset if it says one")
	f.StringArrayVar(&o.headers, "header", nil, "header of the answer, as `'NAME: VALUE'`; repeatable")
	f.BoolVar(&o.css, "css", false, "also what style sheets within the page refer to")
	f.BoolVar(&o.follow, "follow", false, "only what the crawler follows by default")
	jsonFlag(cmd, &o.json)
	return cmd
}

func runToolExtract(cmd *cobra.Command, o *toolExtractOptions, list []string) error {
	switch {
	case o.base == "":
		return usagef(cmd, "--base is missing: the URL of the page, which its links are relative to")
	case len(list) != 1:
		return usagef(cmd, "%d files; give the one file that holds the page, or - for stdin", len(list))
	case o.css && o.follow:
		return usagef(cmd, "--css and --follow at once: style sheets are not followed by default")
	}
	if err := tool.CheckPage(o.base); err != nil {
		return usagef(cmd, "--base %s: %w", clipped(o.base), err)
	}
	header, err := o.header(cmd)
	if err != nil {
		return err
	}
	body, err := readInput(cmd, list[0], tool.MaxPage)
	if err != nil {
		return err
	}
	found, err := tool.Page{URL: o.base, Header: header, Body: body, Styles: o.css, Follow: o.follow}.Links()
	if errors.Is(err, tool.ErrContentType) {
		return usagef(cmd, "content type %s: %w", clipped(header.Get("Content-Type")), tool.ErrContentType)
	}
	if err != nil {
		return err
	}
	if o.follow && found.NoFollow {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the page asks crawlers not to follow its links (robots nofollow)\n", toolName(cmd))
	}
	if found.Dropped > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %d links more were left out, as the crawler does\n", toolName(cmd), found.Dropped)
	}
	return o.print(cmd, found.List)
}

// header returns the headers of the answer.
func (o *toolExtractOptions) header(cmd *cobra.Command) (http.Header, error) {
	h := http.Header{}
	for _, s := range o.headers {
		name, value, ok := strings.Cut(s, ":")
		value = strings.Trim(value, " \t")
		if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, usagef(cmd, "--header %s: want 'NAME: VALUE'", clipped(s))
		}
		h.Add(name, value)
	}
	switch {
	case h.Get("Content-Type") == "":
		h.Set("Content-Type", o.contentType)
	case cmd.Flags().Changed("content-type"):
		return nil, usagef(cmd, "--content-type and --header 'Content-Type: ...' at once")
	}
	return h, nil
}

func (o *toolExtractOptions) print(cmd *cobra.Command, links []tool.Link) error {
	for _, l := range links {
		var err error
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
