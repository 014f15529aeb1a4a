package ping

import (
	"errors"
	"fmt"
	"strings"

	"peerd/crawl/canon"
	"peerd/store"
)

var (
	// ErrKey means that a key is not one: 8 to 128 letters, digits and hyphens.
	ErrKey = errors.New("not a key of 8 to 128 letters, digits and hyphens")
	// ErrURL means that a key cannot speak for a URL, or that a URL is none of a page.
	ErrURL = errors.New("not a URL that the key can speak for")
)

const (
	minKey, maxKey = 8, 128
	// maxNotice is the maximum length of Notice.URL in bytes: that of URLs between peers.
	maxNotice = 2048
)

// A Notice says that a page has changed. It is true if a file of the site has a key as its text.
type Notice struct {
	Page store.URL
	File store.URL // of the same origin, and not in a deeper directory than the page
	Key  string
}

// New returns a notice of a page. The URL of the file may be "": it is then KEY.txt in the root
// directory of the page's origin. Errors wrap ErrKey or ErrURL.
func New(page, key, file string) (n Notice, err error) {
	if !isKey(key) {
		return n, ErrKey
	}
	n.Key = key
	if n.Page, err = canon.Parse(page); err != nil {
		return n, fmt.Errorf("%w: %.100q: %w", ErrURL, page, err)
	}
	n.File = usualFile(n.Page.Origin(), key)
	if file != "" {
		if n.File, err = canon.Parse(file); err != nil {
			return n, fmt.Errorf("%w: key file %.100q: %w", ErrURL, file, err)
		}
	}
	switch dir := directory(n.File); {
	case n.File.Origin() != n.Page.Origin():
		return n, fmt.Errorf("%w: %s: the key file is at %s", ErrURL, n.Page, n.File.Origin())
	case !strings.HasPrefix(string(n.Page), dir):
		return n, fmt.Errorf("%w: %s: the key file speaks for %s", ErrURL, n.Page, dir)
	case len(n.URL()) > maxNotice:
		return n, fmt.Errorf("%w: it is too long", ErrURL)
	}
	return n, nil
}

// isKey reports whether a text has the form of a key.
func isKey(s string) bool {
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return len(s) >= minKey && len(s) <= maxKey
}

// usualFile returns the URL of the file of a key for which none is named.
func usualFile(origin, key string) store.URL { return store.URL(origin + "/" + key + ".txt") }

// directory returns the URL of the directory of a file.
func directory(file store.URL) string {
	path, _, _ := strings.Cut(string(file), "?")
	return path[:strings.LastIndexByte(path, '/')+1]
}

// URL returns the notice as it is stored and sent to other peers, with store.KindPinged: the URL
// of the page, and as its fragment the key, followed by a comma and the path of the file if that is
// not the usual one. No page has this URL, so a notice is never taken for a link to the page.
func (n Notice) URL() store.URL {
	u := string(n.Page) + "#" + n.Key
	if origin := n.Page.Origin(); n.File != usualFile(origin, n.Key) {
		u += "," + strings.TrimPrefix(string(n.File), origin)
	}
	return store.URL(u)
}

// Parse returns the notice of which u is the URL, from whomever it comes.
func Parse(u store.URL) (Notice, error) {
	page, proof, _ := strings.Cut(string(u), "#")
	key, file, named := strings.Cut(proof, ",")
	if named {
		file = store.URL(page).Origin() + file
	}
	n, err := New(page, key, file)
	if err == nil && n.URL() != u {
		err = fmt.Errorf("%w: %.100q is not in canonical form", ErrURL, u)
	}
	if err != nil {
		return Notice{}, fmt.Errorf("ping: %w", err)
	}
	return n, nil
}
