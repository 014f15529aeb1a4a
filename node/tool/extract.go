package tool

import (
	"errors"
	"fmt"
	"net/http"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
)

// MaxPage is the number of bytes of a page that are read: the default of networks.
const MaxPage = 8 << 20

// maxLinks bounds the links of a page, as in the crawler.
const maxLinks = 100_000

// Link is a link of a page. Element and Attribute are in lower case.
type Link struct {
	URL       string `json:"url"`
	Element   string `json:"element"`
	Attribute string `json:"attribute"`
	Rel       string `json:"rel"`
}

// ErrContentType is returned for pages of a content type without links.
var ErrContentType = errors.New(
	"has no links, want text/html or application/xhtml+xml")

// CheckPage returns why the URL of a page cannot be crawled; nil if it can.
func CheckPage(base string) error {
	if _, err := canon.Parse(base); err != nil {
		return errors.New(reason(err, false))
	}
	return nil
}

// Links returns the links of a page in document order, to pages, media and forms, and how many
// there are beyond the limit. The error is ErrContentType, or that of CheckPage.
func Links(base, contentType string, body []byte) (list []Link, dropped int, err error) {
	from, err := canon.Parse(base)
	if err != nil {
		return nil, 0, fmt.Errorf("base %.200q: %s", base, reason(err, false))
	}
	doc, err := extract.Page(body, http.Header{"Content-Type": {contentType}}, from,
		extract.Options{MaxLinks: maxLinks, Agent: Agent,
			Kinds: extract.Pages | extract.Media | extract.Forms})
	if err != nil {
		return nil, 0, fmt.Errorf("content type %.200q: %w", contentType, ErrContentType)
	}
	for _, l := range doc.Links {
		list = append(list, Link{URL: string(l.URL), Element: l.Element, Attribute: l.Attribute,
			Rel: l.Rel})
	}
	return list, doc.Dropped, nil
}
