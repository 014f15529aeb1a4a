package search

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/store"
	"peerd/store/index"
	"peerd/store/warc"
)

// maxBody bounds the body of a page, in bytes.
const maxBody = 64 << 20

// The types of pages that are indexed.
const typeHTML, typeText = "html", "text"

// ErrNoPage is returned for responses that are not valid HTTP, although archived as received.
var ErrNoPage = errors.New("no valid response")

// Page is an archived response and its text.
type Page struct {
	Status  int
	NoIndex bool
	// Type is "html" or "text"; "" if the response has no text or asks not to be indexed.
	Type string
	extract.Document
}

// Body reads and decodes the body of an archived response, which may have been cut. It returns at
// most limit bytes. The error matches ErrNoPage, and the one of what is read.
func Body(resp *http.Response, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	body, err := fetch.Decode(raw, resp.Header, limit)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPage, err)
	}
	return body, nil
}

// maxLinks is the number of links that are read of a page, as by the crawler.
const maxLinks = 100_000

// ReadPage reads a response of the archive, head and body. Agent is the crawler's product token,
// by which robots directives may name it. The error is that of r, or that there is no page.
func ReadPage(r io.Reader, u store.URL, agent string) (Page, error) {
	return readPage(r, u, extract.Options{Text: MaxText, MaxLinks: maxLinks, Agent: agent})
}

func readPage(r io.Reader, u store.URL, o extract.Options) (p Page, err error) {
	from := &source{Reader: r}
	resp, err := http.ReadResponse(bufio.NewReader(from), nil)
	if err != nil {
		return p, cmp.Or(from.err, fmt.Errorf("%w: %w", ErrNoPage, err))
	}
	defer resp.Body.Close()
	if p.Status = resp.StatusCode; p.Status != http.StatusOK {
		return p, nil
	}
	body, err := Body(resp, maxBody)
	if err != nil {
		return p, cmp.Or(from.err, err)
	}
	contentType := resp.Header.Get("Content-Type")
	doc, err := extract.Page(body, resp.Header, u, o)
	p.Document, p.NoIndex = doc, !doc.Robots.MayIndex(time.Now())
	switch {
	case p.NoIndex:
	case err == nil:
		p.Type = typeHTML
	case strings.HasPrefix(strings.ToLower(contentType), "text/plain"):
		p.Type = typeText
		p.Text, p.Charset = extract.Text(body, contentType, MaxText)
	}
	return p, nil
}

// source keeps the error of a reader apart from those of what is read, such as a coding of the
// transfer that a body does not have.
type source struct {
	io.Reader
	err error // nil at an end, also at one that comes too early
}

func (s *source) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		s.err = err
	}
	return n, err
}

// answer returns what an answer says about the page with a URL.
// The address is that of the server.
func (p *Page) answer(
	u store.URL, at time.Time, addr netip.Addr, where store.Location,
) answer {
	a := answer{url: u}
	switch {
	case isRobots(u) || u.Host() == "":
	case p.Type != "":
		a.page = &index.Document{
			URL: u, Title: plainSpaces(p.Title), Headings: p.Headings, Text: p.PlainText(),
			Type: p.Type, FetchedAt: at, Canonical: p.Canonical, Archive: where,
			Addr: addr, Links: linksOf(p, u.Host()), UnavailableAfter: p.Robots.UnavailableAfter,
		}
	case isGone(p.Status) || p.NoIndex:
		a.gone = true
	}
	return a
}

// sizeOf returns the number of bytes that a page takes in memory, about.
func sizeOf(d *index.Document) int {
	n := len(d.Text) + len(d.Headings) + len(d.Title)
	for _, l := range d.Links {
		n += len(l.URL) + len(l.Text) + 32
	}
	return n
}

// linksOf returns the links of a page to pages of other hosts, unless they say that they recommend
// nothing.
func linksOf(p *Page, host string) (links []index.Link) {
	if p.Robots.NoFollow {
		return nil
	}
	seen := map[index.Link]bool{}
	for _, l := range p.Links {
		k := index.Link{URL: l.URL, Text: l.Text}
		if l.Element != "a" || l.URL.Host() == host || seen[k] || l.NoFollow() ||
			l.HasRel("ugc") || l.HasRel("sponsored") {
			continue
		}
		seen[k] = true
		if links = append(links, k); len(links) == index.MaxLinks {
			break
		}
	}
	return links
}

// isGone reports whether a status means that there is no such page any more.
func isGone(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusGone, http.StatusMovedPermanently,
		http.StatusPermanentRedirect:
		return true
	}
	return false
}

// Texter returns a function that reads the texts of pages in an index from the archive.
func Texter(archive *warc.Reader, agent string) index.Texter {
	return func(m index.Meta) (string, error) {
		c, err := archive.ReadAt(warc.Location{File: m.Archive.File, Offset: m.Archive.Offset,
			Length: m.Archive.Length})
		if err != nil {
			return "", err
		}
		if c.URL != string(m.URL) {
			return "", fmt.Errorf("%w: the archive has another page in place of %s", ErrNoPage,
				m.URL)
		}
		p, err := readPage(io.MultiReader(bytes.NewReader(c.Head), bytes.NewReader(c.Body)), m.URL,
			extract.Options{Text: MaxText, MaxLinks: 1, Agent: agent})
		return p.PlainText(), err
	}
}

// PlainText returns the text of a page, with its title.
func (p *Page) PlainText() string {
	if p.Title == "" || strings.HasPrefix(p.Text, p.Title) {
		return plainSpaces(p.Text)
	}
	return plainSpaces(p.Title + "\n" + p.Text)
}

// plainSpaces replaces no-break spaces, which are for layout.
func plainSpaces(text string) string { return strings.ReplaceAll(text, "\u00a0", " ") }
