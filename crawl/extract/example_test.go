package extract_test

import (
	"errors"
	"fmt"
	"net/http"

	"peerd/crawl/extract"
)

func ExamplePage() {
	header := http.Header{
		"Content-Type": {"text/html; charset=utf-8"},
		"Link":         {`</page/2>; rel="next"`},
		"X-Robots-Tag": {"noarchive"},
	}
	body := []byte(`<!doctype html>
<title>Fruit &amp; nuts</title>
<link rel="canonical" href="/shop/">
<a href="apples.html">Apples</a>
<a href="/login" rel="nofollow">Log in</a>`)

	doc, err := extract.Page(body, header, "http://example.org/shop/index.html", extract.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.Title, doc.Canonical, doc.Robots.NoArchive)
	for _, link := range doc.Links {
		fmt.Println(link.Element, link.Attribute, link.URL, link.NoFollow())
	}
	// Output:
	// Fruit & nuts http://example.org/shop/ true
	// http link http://example.org/page/2 false
	// link href http://example.org/shop/ false
	// a href http://example.org/shop/apples.html false
	// a href http://example.org/login true
}

func ExamplePage_kinds() {
	body := []byte(`<img src="logo.png"><form action="/search"><input name="q"></form><a href="/">`)
	options := extract.Options{Kinds: extract.Pages | extract.Media | extract.Forms}
	doc, err := extract.Page(body, http.Header{}, "http://example.org/about", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, link := range doc.Links {
		fmt.Println(link.Element, link.URL)
	}
	// Output:
	// img http://example.org/logo.png
	// form http://example.org/search
	// a http://example.org/
}

func ExamplePage_text() {
	body := []byte(`<h1>Opening hours</h1><p>Monday to <b>Friday</b></p><script>let x = 1</script>`)
	options := extract.Options{Text: 1 << 20}
	doc, err := extract.Page(body, http.Header{}, "http://example.org/", options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.Text)
	// Output:
	// Opening hours
	// Monday to Friday
}

func ExamplePage_notHTML() {
	header := http.Header{"Content-Type": {"image/png"}}
	_, err := extract.Page(nil, header, "http://example.org/logo.png", extract.Options{})
	fmt.Println(errors.Is(err, extract.ErrNotHTML))
	// Output: true
}

func ExampleText() {
	body := []byte("Opening   hours\r\n\r\nMonday to Friday\r\n")
	text, charset := extract.Text(body, "text/plain", 1<<10)
	fmt.Printf("%q %s\n", text, charset)
	// Output: "Opening hours\nMonday to Friday" utf-8
}

func ExampleIsHTML() {
	fmt.Println(extract.IsHTML("text/html; charset=utf-8"))
	fmt.Println(extract.IsHTML("application/pdf"))
	// Output:
	// true
	// false
}

func ExampleLink_HasRel() {
	link := extract.Link{Rel: "ugc NoFollow"}
	fmt.Println(link.HasRel("UGC"), link.NoFollow())
	// Output: true true
}
