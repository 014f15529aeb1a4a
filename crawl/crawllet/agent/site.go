package main

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"peerd/crawl/crawllet/record"
)

// site maps URLs to files.
type site struct {
	prefix string // URL of the root directory, ends with "/"
	root   string
	buf    []byte // of the last file
}

func newSite(prefix, root string) (*site, error) {
	u, err := url.Parse(prefix)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.RawQuery != "" || u.Fragment != "" || !strings.HasSuffix(u.Path, "/") {
		return nil, fmt.Errorf("-prefix %q: want an http URL that ends with a slash", prefix)
	}
	return &site{prefix: u.String(), root: root}, nil
}

// has reports whether the URL may be a file: it is below the prefix and has no query, because what
// a server does with queries is not known here. It leaves room for a slash at the end.
func (s *site) has(u string) bool {
	return strings.HasPrefix(u, s.prefix) && !strings.ContainsAny(u, "?#") &&
		len(u) < record.MaxURL && utf8.ValidString(u)
}

// file is what a URL stands for.
type file struct {
	dir       bool   // a directory, of which the URL lacks the slash at the end
	body      []byte // valid until the next file is read
	cut       bool   // body is a part of the file
	size      int64
	modified  int64 // Unix time
	mediaType string
}

// read reads the file of a URL that the site has.
func (s *site) read(u string) (file, error) {
	name, err := url.PathUnescape(u[len(s.prefix):])
	if err != nil {
		return file{}, err
	}
	if strings.HasSuffix(name, "/") || name == "" {
		name += "index.html"
	}
	f, err := os.Open(path.Join(s.root, path.Clean("/"+name)))
	if err != nil {
		return file{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return file{}, err
	case info.IsDir():
		return file{dir: true}, nil
	}
	out := file{
		size: info.Size(), modified: info.ModTime().Unix(), mediaType: mediaType(name),
	}
	s.buf = slices.Grow(s.buf[:0], int(min(out.size, record.MaxBody)))
	out.body = s.buf[:min(out.size, record.MaxBody)]
	n, err := io.ReadFull(f, out.body)
	// A file may have become shorter.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return file{}, err
	}
	out.body, out.cut = out.body[:n], out.size > int64(n)
	return out, nil
}

// mediaTypes are the types of files by the end of their names.
var mediaTypes = map[string]string{
	".html": "text/html", ".htm": "text/html", ".xhtml": "application/xhtml+xml",
	".txt": "text/plain", ".md": "text/markdown", ".xml": "application/xml",
	".pdf": "application/pdf", ".json": "application/json", ".css": "text/css",
	".js": "text/javascript", ".svg": "image/svg+xml",
}

func mediaType(name string) string {
	if t, ok := mediaTypes[strings.ToLower(path.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}

func isHTML(mediaType string) bool {
	return mediaType == "text/html" || mediaType == "application/xhtml+xml"
}
