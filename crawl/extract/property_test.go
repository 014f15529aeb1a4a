package extract

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"peerd/crawl/canon"
	_ "peerd/internal/rapidtest"
	"peerd/store"
)

// oracle returns the links of a page by their definition: it parses the page, finds the first base,
// and then the links. ok is false if the parser rejects the page.
func oracle(body []byte, page store.URL) (links map[store.URL]bool, ok bool) {
	root, err := html.ParseWithOptions(strings.NewReader(string(body)),
		html.ParseOptionEnableScripting(false))
	if err != nil {
		return nil, false
	}
	base := canon.BaseOf(page)
	based := false
	links = make(map[store.URL]bool)
	elements(root, func(n *html.Node) {
		if href, has := attributeOfNode(n, "href"); n.Namespace+n.Data == "base" && has && !based {
			base, based = base.Rebase(strings.Trim(href, whiteSpace)), true
		}
	})
	elements(root, func(n *html.Node) {
		var ref string
		var has bool
		switch n.Namespace + ":" + n.Data {
		case ":a", ":area", ":link", "svg:a":
			ref, has = attributeOfNode(n, "href")
		case ":iframe", ":frame":
			ref, has = attributeOfNode(n, "src")
		}
		if rel, _ := attributeOfNode(n, "rel"); !has || n.Data == "link" &&
			strings.Contains(rel, "stylesheet") {
			return
		}
		if u, err := base.Join(strings.Trim(ref, whiteSpace)); err == nil {
			links[u] = true
		}
	})
	return links, true
}

// attributeOfNode returns the first attribute with a name, in any namespace.
func attributeOfNode(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func elements(n *html.Node, f func(*html.Node)) {
	if n.Type == html.ElementNode {
		f(n)
	}
	for child := n.FirstChild; child != nil; child = child.NextSibling {
		elements(child, f)
	}
}

func linkSet(d Document) map[store.URL]bool {
	set := make(map[store.URL]bool)
	for _, l := range d.Links {
		set[l.URL] = true
	}
	return set
}

// tags are tags that make HTML hard to parse, with a different link each.
var tags = append(slices.Clip(placed),
	"<frame src=7>", "<frameset>", "</frameset>", "<head>", "</head>", "</html>", "<select>",
	"</select>", "<option>", "<svg>", "</svg>", "<math>", "</math>", "<mi>", "<foreignObject>",
	"<desc>", "<annotation-xml encoding=text/html>", "<caption>", "<colgroup>", "<col>",
	"<template>", "</template>", "<![CDATA[", "]]>")

// placed are those of which the links do not depend on where they are.
var placed = []string{
	"<a href=1>", "</a>", "<a href=2 />", "<area href=3>", "<link href=4>",
	"<link rel=stylesheet href=5>", "<iframe src=6>", "</iframe>",
	"<noframes>", "</noframes>", "<base href=/x/>", "<base href=/y/>",
	"<body>", "</body>", "<script>", "</script>", "<style>", "</style>",
	"<title>", "</title>", "<textarea>", "</textarea>", "<noscript>", "</noscript>",
	"<svg><a href=11></a></svg>", "<svg><path d=x /></svg>", "<table><tr><td></table>",
	"<tr>", "<td>", "<p>", "</p>", "<b>", "</b>",
	"<i>", "</i>", "<button>", "<form>", "<xmp>", "</xmp>", "<plaintext>", "<!--", "-->",
	"<!doctype html>", "text", "<", "&amp;", "<a href='8", "'>",
	"<a href=\"9\">", "<font color=x>", "<br>", "</br>", "<img>", "<noembed>", "</noembed>",
	"\x00", "<a xlink:href=10>",
}

func TestSameLinksAsTree(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom(placed), 0, 30).Draw(t, "tags")
		body := []byte(strings.Join(some, ""))
		d, err := pageOf(body, "text/html; charset=utf-8", page, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := oracle(body, page); ok && !maps.Equal(linkSet(d), want) {
			t.Fatalf("%q: %q, want %q", body, slices.Sorted(maps.Keys(linkSet(d))),
				slices.Sorted(maps.Keys(want)))
		}
	})
}
