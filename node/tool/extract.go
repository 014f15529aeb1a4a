package tool

import (
	"errors"
	"fmt"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/store"
)

// MaxPage is how much of a page is read, in bytes: what networks have that do
// not say otherwise.
const MaxPage = 8 << 20

// Link is a link of a page. Element and Attribute are in lower case.
type Link struct {
	URL       string `json:"url"`
	Element   string `json:"element"`
	Attribute string `json:"attribute"`
	Rel       string `json:"rel"`
}

// ErrContentType is returned for pages of a kind that has no links.
var ErrContentType = errors.New("not a kind of page that links are found in, want text/html or application/xhtml+xml")

// CheckPage says what is wrong with the URL of a page: nothing if it is one
// that is crawled.
func CheckPage(base string) error {
	if _, err := canon.Parse(base); err != nil {
		return errors.New(reason(err, false))
	}
	return nil
}

// Links returns the links of the page at base in document order. The error is
// ErrContentType, or that of CheckPage.
func Links(body []byte, contentType, base string) ([]Link, error) {
	page, err := canon.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("base %.200q: %s", base, reason(err, false))
	}
	return links(body, contentType, page)
}

// links is the one place that knows the package that finds them.
func links(body []byte, contentType string, page store.URL) ([]Link, error) {
	d, err := extract.HTML(body, contentType, page, extract.Options{})
	if err != nil {
		return nil, fmt.Errorf("content type %.200q: %w", contentType, ErrContentType)
	}
	list := make([]Link, len(d.Links))
	for i, l := range d.Links {
		list[i] = Link{URL: string(l.URL), Element: l.Element, Attribute: l.Attribute, Rel: l.Rel}
	}
	return list, nil
}
