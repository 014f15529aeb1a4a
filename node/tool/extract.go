package tool

import (
	"errors"
	"fmt"
	"net/http"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/store"
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

// Page is a response with the options for its links.
type Page struct {
	URL    string      // base of relative links
	Header http.Header // Content-Type, Link, Refresh and X-Robots-Tag are used
	Body   []byte
	// Styles includes style sheets and the references in CSS within the page, in addition to
	// pages, media and forms.
	Styles bool
	// Follow includes only what a crawler follows by default: links to pages, each once, and
	// none of a page that forbids it.
	Follow bool
}

// Links are the links of a Page.
type Links struct {
	List     []Link // in document order, those of the header first
	NoFollow bool   // the page forbids crawlers to follow its links
	Dropped  int    // links beyond the limit
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

// Links returns the links of p. The error is ErrContentType, or that of CheckPage.
func (p Page) Links() (Links, error) {
	base, err := canon.Parse(p.URL)
	if err != nil {
		return Links{}, fmt.Errorf("base %.200q: %s", p.URL, reason(err, false))
	}
	doc, err := extract.Page(p.Body, p.Header, base, extract.Options{MaxLinks: maxLinks,
		Kinds: p.kinds(), Agent: Agent})
	if err != nil {
		return Links{}, fmt.Errorf("content type %.200q: %w", p.Header.Get("Content-Type"),
			ErrContentType)
	}
	found := Links{NoFollow: doc.Robots.NoFollow, Dropped: doc.Dropped}
	if p.Follow && doc.Robots.NoFollow {
		return found, nil
	}
	seen := map[store.URL]bool{}
	for _, l := range doc.Links {
		if p.Follow {
			if l.URL = canon.DefaultRules().Apply(l.URL); seen[l.URL] {
				continue
			}
			seen[l.URL] = true
		}
		found.List = append(found.List, Link{URL: string(l.URL), Element: l.Element,
			Attribute: l.Attribute, Rel: l.Rel})
	}
	return found, nil
}

func (p Page) kinds() extract.Kinds {
	kinds := extract.Pages
	if !p.Follow {
		kinds |= extract.Media | extract.Forms
	}
	if p.Styles {
		kinds |= extract.Styles
	}
	return kinds
}
