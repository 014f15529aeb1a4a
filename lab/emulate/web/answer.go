package web

import (
	"bytes"
	"net/http"
	"strings"
	"time"
)

// answer is the answer of a site to one path.
type answer struct {
	status   int
	ctype    string
	location string
	body     []byte // unless page ≥ 0
	page     int    // number of the page to render, or -1
	delay    time.Duration
}

const (
	typeHTML = "text/html; charset=utf-8"
	typeText = "text/plain; charset=utf-8"
)

// The bodies of answers that are not pages.
var (
	photo   = append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("photo"), 800)...)
	paper   = append([]byte("%PDF-1.4\n"), bytes.Repeat([]byte("paper "), 4000)...)
	style   = []byte("body { margin: 2em auto; max-width: 40em; }\n")
	missing = []byte("<!DOCTYPE html><title>Not found</title>" +
		"<p>There is nothing here. <a href=\"/\">Home</a></p>\n")
	broken   = []byte("<!DOCTYPE html><title>Error</title><p>Something broke.</p>\n")
	moved    = []byte("<!DOCTYPE html><title>Moved</title><p>It has moved.</p>\n")
	noRobots = []byte("404 page not found\n")
)

// answer returns the answer of s to key, a canonical path and query.
func (w *Web) answer(s *site, key string) answer {
	if k, ok := s.index[key]; ok {
		return answer{status: http.StatusOK, ctype: typeHTML, page: int(k), delay: s.pages[k].delay}
	}
	a := answer{status: http.StatusOK, page: -1, delay: s.delay / 2}
	if to, ok := s.aliases[key]; ok {
		a.status, a.ctype, a.body, a.location = to.status, typeHTML, moved, to.location()
		return a
	}
	switch {
	case key == "/robots.txt" && s.robots == robotsMoved:
		a.status, a.ctype, a.body, a.location = http.StatusMovedPermanently, typeHTML, moved,
			movedFile
	case key == "/robots.txt" && s.robots == robotsNone:
		a.status, a.ctype, a.body = http.StatusNotFound, typeText, noRobots
	case key == "/robots.txt", key == movedFile && s.robots == robotsMoved:
		a.ctype, a.body = typeText, []byte(s.robots.text(w.cfg.MinDelay))
	case s.robots.forbids(key):
		a.ctype, a.body = typeHTML, trap(key)
	case strings.HasPrefix(key, "/img/"):
		a.ctype, a.body = "image/png", photo
	case strings.HasPrefix(key, "/files/"):
		a.ctype, a.body = "application/pdf", paper
	case key == "/style.css":
		a.ctype, a.body = "text/css", style
	case strings.HasPrefix(key, "/cgi-bin/"):
		a.status, a.ctype, a.body = http.StatusInternalServerError, typeHTML, broken
	default:
		a.status, a.ctype, a.body = http.StatusNotFound, typeHTML, missing
	}
	return a
}

// location returns the Location header of a redirect.
func (a alias) location() string {
	if a.full {
		return a.to.site.origin + a.to.key
	}
	return a.to.key
}

// trap returns a page below a path that robots.txt forbids: it links to more such pages,
// endlessly.
func trap(key string) []byte {
	path, _, _ := strings.Cut(key, "?")
	next := names[len(key)*7%len(names)]
	return []byte("<!DOCTYPE html><title>Private</title><ul><li><a href=\"" + path + next +
		"/\">deeper</a>" +
		"<li><a href=\"" + closedTree + next + "/\">elsewhere</a></ul>\n")
}
