package dashboard

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"strings"
	"sync"
)

//go:embed static
var files embed.FS

// Prefix is the path below which Handler expects requests.
const Prefix = "/dashboard/"

// The frame of the page names the style sheet, a script that runs at once, and the module that
// needs all others. Handler serves one file that contains them, because each request takes a
// browser longer than reading what it brings.
var (
	style  = regexp.MustCompile(`<link rel="stylesheet" href="([a-z]+\.css)">`)
	script = regexp.MustCompile(
		`<script( type="module" blocking="render")? src="([a-z]+\.js)"></script>`)
	icon = regexp.MustCompile(`(href|src)="icon\.svg"`)
	// The lines of a module that only connect it with others.
	imports = regexp.MustCompile(`(?m)^import .*;\n`)
	exports = regexp.MustCompile(`(?m)^export `)
)

// modules are the modules of the page, each after those that it imports. Their names at the top
// level differ, so that they can be joined to one.
var modules = []string{"dom.js", "charts.js", "table.js", "map.js", "search.js", "views.js",
	"app.js"}

// page is what Handler serves, with its Content Security Policy and its entity tag.
type page struct {
	text        []byte
	policy, tag string
}

// assemble returns the page. The policy permits, by their digests, what the page contains, and
// otherwise nothing inline; all data comes from this server.
func assemble() page {
	var hashes [2]string // of scripts and of styles
	contain := func(kind int, text string) string {
		sum := sha256.Sum256([]byte(text))
		hashes[kind] += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		return text
	}
	text := style.ReplaceAllStringFunc(read("index.html"), func(tag string) string {
		return "<style>" + contain(1, read(style.FindStringSubmatch(tag)[1])) + "</style>"
	})
	text = script.ReplaceAllStringFunc(text, func(tag string) string {
		m := script.FindStringSubmatch(tag)
		names := []string{m[2]}
		if m[1] != "" {
			names = modules
		}
		var all strings.Builder
		for _, name := range names {
			all.WriteString(exports.ReplaceAllString(imports.ReplaceAllString(read(name), ""), ""))
		}
		return "<script" + m[1] + ">" + contain(0, all.String()) + "</script>"
	})
	text = icon.ReplaceAllString(text, `$1="data:image/svg+xml;base64,`+
		base64.StdEncoding.EncodeToString([]byte(read("icon.svg")))+`"`)
	sum := sha256.Sum256([]byte(text))
	return page{[]byte(text), "default-src 'none'; script-src" + hashes[0] + "; style-src" +
		hashes[1] + "; img-src data: blob:; connect-src 'self'; base-uri 'none'; " +
		"form-action 'none'; frame-ancestors 'none'", `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// read returns a file. It panics if there is none, which a test would show.
func read(name string) string {
	data, err := files.ReadFile("static/" + name)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Handler returns a handler of the page. It contains nothing about the peer.
func Handler() http.Handler {
	assembled := sync.OnceValue(assemble)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Prefix {
			http.NotFound(w, r)
			return
		}
		p := assembled()
		h := w.Header()
		h.Set("Content-Security-Policy", p.policy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-cache") // checked by its tag each time
		h.Set("ETag", p.tag)
		h.Set("Content-Type", "text/html; charset=utf-8")
		if r.Header.Get("If-None-Match") == p.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Write(p.text)
	})
}
