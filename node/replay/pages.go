package replay

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/net/html"

	"peerd/store"
	"peerd/store/warc"
)

// The pages of the replay itself are made without package template, which looks up methods by name:
// that makes the linker keep all methods of the program, a fifth of its size.

// show answers with a page of the replay itself.
func show(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, ownHead+body) // else the client has gone
}

const ownHead = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Archived pages</title>
<style>body{font:16px/1.5 sans-serif;max-width:50em;margin:2em auto;padding:0 1em}
input{width:70%}</style>`

const startPage = `<h1>Archived pages</h1>
<form action="/web"><label>URL <input name="url" autofocus></label> <button>Show</button></form>`

func missingPage(u store.URL) string {
	name := html.EscapeString(string(u))
	return `<h1>Not archived</h1>
<p>The archive of this peer has no capture of <code>` + name + `</code>, or only one that
redirects to itself or to a URL without one. It was not fetched, or fetched by another peer, or its
site asks not to be archived.</p>
<p><a href="/web/*/` + name + `">Captures of URLs that begin with this one</a></p>`
}

// listPage lists captures of URLs that begin with u; more says that there are others.
func listPage(u store.URL, all []warc.Entry, more bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<h1>Captures</h1>\n<p>URLs that begin with <code>%s</code>",
		html.EscapeString(string(u)))
	if more {
		fmt.Fprintf(&b, "; the first %d", len(all))
	}
	b.WriteString("</p>\n")
	if len(all) == 0 {
		b.WriteString("<p>None.</p>")
	}
	b.WriteString("<ul>\n")
	for _, e := range all {
		fmt.Fprintf(&b, "<li><a href=\"/web/%[1]s/%[2]s\">%[1]s</a> %[3]s %[4]s\n%[2]s</li>\n",
			stamp(e.Time), html.EscapeString(e.URL), html.EscapeString(e.Status),
			html.EscapeString(e.MIME))
	}
	return b.String() + "</ul>"
}
