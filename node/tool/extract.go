package tool

import (
	"errors"
	"fmt"
	"net/http"

	"peerd/crawl/canon"
	"peerd/crawl/extract"
	"peerd/store"
)

// MaxPage is how much of a page is read, in bytes: what networks have that do
// not say otherwise.
const MaxPage = 8 << 20

// maxLinks bounds the links of a page, as the crawler does.
const maxLinks = 100_000

// Link is a link of a page. Element and Attribute are in lower case.
type Link struct {
	URL       string `json:"url"`
	Element   string `json:"element"`
	Attribute string `json:"attribute"`
	Rel       string `json:"rel"`
}

// Page is an answer, and what is asked of it.
type Page struct {
	URL    string      // what its links are relative to
	Header http.Header // Content-Type, Link, Refresh and X-Robots-Tag count
	Body   []byte
	// Styles asks for style sheets and what CSS in the page refers to, besides
	// pages, media and forms.
	Styles bool
	// Follow asks only for what a crawler follows if its network does not say
	// otherwise: links to pages, each once, and none of a page that asks for that.
	Follow bool
}

// Links are what came of a Page.
type Links struct {
	List     []Link // in document order, those of the header first
	NoFollow bool   // the page asks crawlers not to follow its links
	Dropped  int    // links beyond what is read of one page
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

// Links returns the links of p. The error is ErrContentType, or that of
// CheckPage.
func (p Page) Links() (Links, error) {
	base, err := canon.Parse(p.URL)
	if err != nil {
		return Links{}, fmt.Errorf("base %.200q: %s", p.URL, reason(err, false))
	}
	doc, err := extract.Page(p.Body, p.Header, base, extract.Options{MaxLinks: maxLinks, Kinds: p.kinds(), Agent: Agent})
	if err != nil {
		return Links{}, fmt.Errorf("content type %.200q: %w", p.Header.Get("Content-Type"), ErrContentType)
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
		found.List = append(found.List, Link{URL: string(l.URL), Element: l.Element, Attribute: l.Attribute, Rel: l.Rel})
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
