// Package localsite watches the document roots of web sites on this machine. It finds the pages
// of files that are new, changed or deleted, so that they are fetched at once instead of when a
// visit is due. Papapetrou 2003, section 4.3, has crawlers that run at the site do so.
//
// A [Watcher] compares the files with their versions of before, when it starts and from time to
// time, and receives the file system's events in between. It opens no connection: the pages are
// fetched from the web server as all others are, or reported from their files ([Files]). It tells
// an [Announcer], which also stores the versions; a change that is not announced before a crash is
// found again.
//
// Only directories are watched. What is not a regular file with the name of a page, what begins
// with a dot, and what symbolic links lead to is left out.
package localsite

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/similar"
	"peerd/internal/faults"
	"peerd/store"
)

// Version tells two contents of a file apart. The zero value is that of a file that does not
// exist.
type Version struct {
	Size    int64 `cbor:"1,keyasint"`
	ModTime int64 `cbor:"2,keyasint"` // Unix nanoseconds
	// Gist is a hash of the text, and Links one of the links and of what crawlers are told, as they
	// were announced; 0: not known.
	Gist  uint64 `cbor:"3,keyasint,omitempty"`
	Links uint64 `cbor:"4,keyasint,omitempty"`
}

// sameFile reports whether a file has not been written since.
func (v Version) sameFile(old Version) bool {
	return v.Size == old.Size && v.ModTime == old.ModTime
}

// trivial reports whether a page has the same links as before, and the same text but for numbers,
// dates and very few words.
func (v Version) trivial(old Version) bool {
	return v.Gist != 0 && old.Gist != 0 && v.Links == old.Links &&
		similar.Simhash(v.Gist).Distance(similar.Simhash(old.Gist)) <= similar.Near
}

// Change is a file that is new, changed or deleted.
type Change struct {
	Path    string      // of the file, relative to the root, with slashes
	URLs    []store.URL // of its page: one or two; none if the change is trivial
	Version Version     // now
	// Changed is false if the site is read for the first time: then the pages are only to be
	// fetched if they never were.
	Changed bool
}

// An Announcer announces changes. A Watcher calls it from one goroutine.
type Announcer interface {
	// Versions returns the versions of the files of a site as of the last changes that were
	// announced, by path.
	Versions(site store.URL) (map[string]Version, error)
	// Announce returns when it is certain that the pages will be fetched, and the new versions
	// are on disk. After an error it is called with the same changes again. There are at most
	// maxChanges.
	Announce(site store.URL, changes []Change) error
}

// maxChanges is the maximum number of changes that are announced at once.
const maxChanges = 400

// Config configures a Watcher.
type Config struct {
	URL       store.URL // of the root; ends with a slash
	Root      string    // directory
	Announcer Announcer
	// Rescan is the time between two comparisons of all files, which find what events missed.
	Rescan time.Duration
	Logger *slog.Logger
}

// Validate returns all errors of c, joined.
func (c Config) Validate() error {
	f := faults.Of("localsite")
	err := CheckURL(string(c.URL))
	f.If(err != nil, "%w", err)
	f.If(c.Root == "", "no directory")
	f.If(c.Announcer == nil, "no announcer")
	f.If(c.Rescan <= 0, "rescan after %v, want more than 0", c.Rescan)
	return f.Err()
}

// CheckURL returns why a URL is not that of a directory in canonical form, or nil.
func CheckURL(raw string) error {
	u, err := canon.Parse(raw)
	switch {
	case err != nil:
		return err
	case strings.ContainsRune(raw, '?') || !strings.HasSuffix(raw, "/"):
		return errors.New("want the URL of a directory, which ends with a slash")
	case string(u) != raw:
		return fmt.Errorf("want the canonical form %s", u)
	}
	return nil
}

// isPage reports whether a file of this name is a page.
func isPage(name string) bool {
	if hidden(name) {
		return false
	}
	switch strings.ToLower(path.Ext(name)) {
	case ".html", ".htm", ".xhtml":
		return true
	}
	return false
}

// hidden reports whether a file or directory of this name is left out.
func hidden(name string) bool { return strings.HasPrefix(name, ".") && name != "." }

// isIndex reports whether servers usually answer with the file for the URL of its directory.
func isIndex(name string) bool { return name == "index.html" || name == "index.htm" }

// urls returns the URLs of the page in a file: for an index, that of its directory, and if the
// page has changed also its own, as either may be the one that other pages link to.
func urls(site store.URL, file string, changed bool) []store.URL {
	dir, name := path.Split(file)
	var names []string
	if isIndex(name) {
		names = append(names, dir)
	}
	if !isIndex(name) || changed {
		names = append(names, file)
	}
	var found []store.URL
	for _, n := range names {
		segments := strings.Split(n, "/")
		for i, s := range segments {
			segments[i] = url.PathEscape(s)
		}
		// What has no canonical form, for example because it is too long, cannot be crawled.
		if u, err := canon.Parse(string(site) + strings.Join(segments, "/")); err == nil {
			found = append(found, u)
		}
	}
	return found
}

// Files returns the files, relative to the root, that a web server may answer with for a URL: those
// of which it is the first of the URLs that are announced.
func Files(site, u store.URL) []string {
	rest, ok := strings.CutPrefix(string(u), string(site))
	if !ok {
		return nil
	}
	name, err := url.PathUnescape(rest)
	if err != nil {
		return nil
	}
	names := []string{name}
	if name == "" || strings.HasSuffix(name, "/") {
		names = []string{name + "index.html", name + "index.htm"}
	}
	return slices.DeleteFunc(names, func(name string) bool {
		if !fs.ValidPath(name) || strings.ContainsRune(name, 0) || !isPage(path.Base(name)) {
			return true
		}
		all := urls(site, name, false)
		return len(all) == 0 || all[0] != u
	})
}

// Type returns the media type of the page in a file.
func Type(name string) string {
	if strings.EqualFold(path.Ext(name), ".xhtml") {
		return "application/xhtml+xml"
	}
	return "text/html"
}
