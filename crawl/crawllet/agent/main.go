// Command agent is the reference crawllet. It reads the pages of one site from its file system,
// follows their links within the site, and writes a record for each page (package record).
//
// It is built with
//
//	make crawllet
//
// and runs natively, too, for comparison. It is called as
//
//	crawllet -prefix URL [-root DIR] [-summaries] [-since UNIX] [-pages N]
//
// Standard input has one URL a line: the seeds, an empty line, and the URLs that have been
// crawled already.
//
// Files:
//
//	main.go      arguments and input
//	crawl.go     from the seeds to the records
//	site.go      from a URL to a file
//	page.go      links, title and text of a page
//	scan.go      its tags and texts
//	words.go     search for bytes
//	elements.go  elements and attributes of interest
//	resolve.go   from a reference to a URL
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crawllet:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("crawllet", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	prefix := flags.String("prefix", "", "URL of the root directory")
	root := flags.String("root", "/", "root directory of the site")
	summaries := flags.Bool("summaries", false, "omit the bodies")
	since := flags.Int64("since", 0, "omit what has not changed since this Unix time")
	pages := flags.Int("pages", 0, "maximum number of pages; 0 is no limit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := newSite(*prefix, *root)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(out, 64<<10)
	c := &crawl{
		pages: reader{withText: *summaries},
		site:  s, summaries: *summaries, since: *since, limit: *pages, seen: map[string]bool{},
		out: w,
	}
	if err := c.readLists(in); err != nil {
		return err
	}
	err = c.run()
	if e := w.Flush(); err == nil {
		err = e
	}
	return err
}
