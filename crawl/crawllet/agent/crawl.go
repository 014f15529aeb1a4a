package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"peerd/crawl/crawllet/record"
)

// crawl is one crawl of a site.
type crawl struct {
	site      *site
	summaries bool
	since     int64 // Unix time
	limit     int   // of pages, 0 for none
	out       io.Writer
	pages     reader

	queue []string
	seen  map[string]bool // queued or crawled before
}

// readLists reads the seeds, an empty line, and the URLs that have been crawled.
func (c *crawl) readLists(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, record.MaxURL+2)
	var seeds []string
	known := false
	for lines.Scan() {
		switch u := lines.Text(); {
		case u == "":
			known = true
		case known:
			c.seen[u] = true
		default:
			seeds = append(seeds, u)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read URLs: %w", err)
	}
	for _, u := range seeds {
		c.add(u)
	}
	return nil
}

// add queues a URL of the site once.
func (c *crawl) add(u string) {
	if !c.seen[u] && c.site.has(u) {
		c.seen[u] = true
		c.queue = append(c.queue, u)
	}
}

// run crawls until the queue is empty.
func (c *crawl) run() error {
	for n := 0; len(c.queue) > 0 && (c.limit == 0 || n < c.limit); n++ {
		u := c.queue[0]
		c.queue = c.queue[1:]
		r, err := c.visit(u)
		if err != nil {
			continue // the site does not serve the file to crawllets
		}
		if err := record.Write(c.out, r); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
	}
	return nil
}

// visit returns the record of a URL, and queues its links. An error means that the file exists but
// cannot be read, so that nothing is known about the URL.
func (c *crawl) visit(u string) (*record.Record, error) {
	r := &record.Record{URL: u, Status: 200}
	f, err := c.site.read(u)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.Status = 404
		return r, nil
	case err != nil:
		return nil, err
	case f.dir:
		r.Status, r.Location = 301, u+"/"
		c.add(r.Location)
		return r, nil
	}
	r.Type, r.Modified, r.Size, r.Cut = f.mediaType, f.modified, f.size, f.cut
	if isHTML(f.mediaType) {
		p := c.pages.parse(u, f.body)
		r.Title = p.title
		if c.summaries {
			r.Links, r.Text = p.links, p.text
		}
		for _, l := range p.fresh {
			c.add(l)
		}
	}
	if c.since > 0 && f.modified <= c.since {
		return &record.Record{URL: u, Status: 304, Modified: f.modified}, nil
	}
	if !c.summaries {
		r.Body = f.body
		return r, nil
	}
	r.Digest = record.Digest(f.body)
	return r, nil
}
