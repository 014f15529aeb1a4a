// Package page is what the host of a plug-in and a plug-in written in Go say to each other. It
// imports the standard library only, so that plug-ins stay small.
//
// The host writes pages to standard input: a line of JSON, which is a Page, and Size bytes of the
// body. For each page the plug-in writes one line of JSON to standard output, which is a Result,
// after it has read the whole page. It ends when standard input does.
package page

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// MaxBody is the maximum length of a body, in bytes; larger pages are not sent to plug-ins.
const MaxBody = 4 << 20

const maxHeader = 64 << 10 // bytes

// Page is a page that was fetched.
type Page struct {
	URL  string `json:"url"`
	Type string `json:"type"` // the header Content-Type
	Size int    `json:"size"` // of the body, bytes
	Body []byte `json:"-"`    // without Content-Encoding; valid until the next page
}

// Result is what a plug-in found in a page.
type Result struct {
	// Links are URLs, absolute or relative to that of the page.
	Links []string `json:"links,omitempty"`
	// Fields are stored with the page in the archive. Names are letters, digits and hyphens.
	Fields map[string]string `json:"fields,omitempty"`
}

// Serve calls f with each page of the host, until there are no more.
func Serve(f func(Page) Result) error { return serve(os.Stdin, os.Stdout, f) }

func serve(from io.Reader, to io.Writer, f func(Page) Result) error {
	in := bufio.NewReaderSize(from, maxHeader)
	var body []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		var p Page
		if err := json.Unmarshal(line, &p); err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		if p.Size < 0 || p.Size > MaxBody {
			return fmt.Errorf("read page: %d bytes", p.Size)
		}
		if cap(body) < p.Size {
			body = make([]byte, p.Size)
		}
		p.Body = body[:p.Size]
		if _, err := io.ReadFull(in, p.Body); err != nil {
			return fmt.Errorf("read page: %w", err)
		}
		answer, err := json.Marshal(f(p))
		if err != nil {
			return err
		}
		if _, err := to.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
}
