// Command sample is a plug-in: it finds the URLs in the JSON-LD of a page (schema.org), which
// crawlers do not follow, and stores the description that the page has for search engines. Build it
// with GOOS=wasip1 GOARCH=wasm.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"strings"

	"peerd/crawl/crawllet/page"
)

func main() {
	if err := page.Serve(read); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(p page.Page) page.Result {
	var r page.Result
	if d := description(p.Body); d != "" {
		r.Fields = map[string]string{"description": d}
	}
	for rest := p.Body; ; {
		_, after, ok := bytes.Cut(rest, []byte(`<script type="application/ld+json">`))
		if !ok {
			return r
		}
		var code []byte
		code, rest, _ = bytes.Cut(after, []byte("</script"))
		var v any
		if json.Unmarshal(code, &v) == nil {
			r.Links = append(r.Links, urls(v)...)
		}
	}
}

// urls returns the values of all members "url".
func urls(v any) (all []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			all = append(all, urls(e)...)
		}
	case map[string]any:
		for name, e := range v {
			if s, ok := e.(string); ok && name == "url" {
				all = append(all, s)
			} else {
				all = append(all, urls(e)...)
			}
		}
	}
	return all
}

// description returns the description of a page, at most 500 bytes of it.
func description(body []byte) string {
	_, after, _ := bytes.Cut(body, []byte(`<meta name="description" content="`))
	text, _, ok := bytes.Cut(after, []byte(`"`))
	if !ok {
		return ""
	}
	line := strings.Join(strings.Fields(html.UnescapeString(string(text))), " ")
	return strings.ToValidUTF8(line[:min(len(line), 500)], "")
}
