package hostile

import (
	"fmt"
	"strconv"
	"strings"
)

// cutAt is the number of bytes that a crawler may take of a body that it truncates: 8 MiB
// and the buffers of the system.
var cutAt = 8<<20 + kept

func bodyCases() []Case {
	return []Case{
		slow(heads("body-drip", "one byte a second", Bound{Repeat: tries}, func(x *exchange) {
			if x.begin("") {
				x.drip("<title>slow</title>" + strings.Repeat("<p>drop", 1000))
			}
		})),
		slow(heads("body-stall", "a page that stops in the middle", Bound{Repeat: tries},
			func(x *exchange) {
				x.status = 200
				x.raw("HTTP/1.1 200 OK\r\n" + htmlType + "Content-Length: 1000\r\n\r\n<p>half")
				x.hang()
			})),
		heads("body-endless", "an endless page; its beginning must be used",
			Bound{Sent: 2 * cutAt, Want: []string{"/good"}}, func(x *exchange) {
				if !x.begin("") || !x.raw("<a href=/good>in time</a>\n") {
					return
				}
				for text := strings.Repeat(prose("endless"), 64); x.raw(text); {
				}
			}),
		heads("body-50mb", "a page of 50 MB", Bound{Sent: 2 * cutAt}, func(x *exchange) {
			x.status = 200
			text := strings.Repeat("<p>lorem ipsum dolor sit amet\n", 1000)
			n := (50 << 20) / len(text)
			x.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n", htmlType,
				n*len(text)))
			for range n {
				if !x.raw(text) {
					return
				}
			}
		}),
		heads("body-big-image", "an image of 50 MB, which no crawler needs", Bound{Sent: 2 * kept},
			func(x *exchange) {
				x.status = 200
				pixels := strings.Repeat("\x89PNG", 1<<14)
				x.raw("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: " +
					strconv.Itoa(800*len(pixels)) + "\r\n\r\n")
				for range 800 {
					if !x.raw(pixels) {
						return
					}
				}
			}),
		heads("body-nested", "elements nested 200,000 deep", Bound{Want: []string{"/bad/1"}},
			func(x *exchange) {
				unit := map[string]string{"/bad/1": "<div>",
					"/bad/2": "<b><a href=/good><table><p>"}[x.path]
				x.page(strings.Repeat(unit, 200_000))
			}),
		heads("body-markup", "markup that makes parsers slow", Bound{}, func(x *exchange) {
			unit := map[string]string{"/bad/1": "<a b=",
				"/bad/2": "<!--<svg><math><font color=x></p>"}[x.path]
			x.page(strings.Repeat(unit, 60_000))
		}),
		heads("body-nul", "NUL bytes in text, markup and links", Bound{Want: []string{"/good"}},
			func(x *exchange) {
				x.page("\x00\x00<ti\x00tle>\x00</title><a\x00 href=/nul\x00l>x</a>" +
					"<a href='/x\x00y'>y</a><a href=\"/good\">z</a>" +
					strings.Repeat("\x00", 100_000))
			}),
		manyLinks(), manyDenied(), manyHosts(), types(),
	}
}

// manyLinks has 200,000 links to 80 pages.
func manyLinks() Case {
	return Case{
		Name: "links-many", About: "a page with 200,000 links to 80 pages",
		Bound: Bound{Requests: 83, Want: []string{"/p/0", "/p/79"}},
		serve: func(x *exchange) {
			switch {
			case x.path == "/":
				var s strings.Builder
				for i := range 200_000 {
					fmt.Fprintf(&s, "<a href=/p/%d#%d>x</a>", i%80, i)
				}
				x.page(s.String())
			case strings.HasPrefix(x.path, "/p/"):
				x.page(linked(x.path))
			default:
				x.missing()
			}
		},
	}
}

// manyDenied has 200,000 links to pages that robots.txt forbids.
func manyDenied() Case {
	return Case{
		Name:  "links-denied",
		About: "a page with 200,000 links that robots.txt forbids, and one that it does not",
		Bound: Bound{Requests: 3, Want: []string{"/good"}, Never: []string{"/no/*"}},
		serve: func(x *exchange) {
			switch x.path {
			case "/robots.txt":
				x.answer(200, "Content-Type: text/plain\r\n", "User-agent: *\nDisallow: /no/\n")
			case "/":
				var s strings.Builder
				s.WriteString("<a href=/good>x</a>")
				for i := range 200_000 {
					fmt.Fprintf(&s, "<a href=/no/%d>x</a>", i)
				}
				x.page(s.String())
			default:
				x.page(linked(x.path))
			}
		},
	}
}

// manyHosts has links to hosts that do not exist.
func manyHosts() Case {
	c := Case{
		Name:  "links-hosts",
		About: "a page with links to 20,000 hosts that do not exist, and one to a page that does",
		Bound: Bound{Requests: 3, Want: []string{"/good"}},
	}
	c.serve = func(x *exchange) {
		switch x.path {
		case "/":
			var s strings.Builder
			s.WriteString("<a href=/good>x</a>")
			for i := range 20_000 {
				fmt.Fprintf(&s, "<a href=%s>x</a>",
					x.url(fmt.Sprintf("h%d-nowhere.%s/", i, Domain)))
			}
			x.page(s.String())
		case "/good":
			x.page(linked("good"))
		default:
			x.missing()
		}
	}
	return c
}

// types has answers with a Content-Type that does not match the body.
func types() Case {
	const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" +
		"\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
	typed := map[string][2]string{ // path: type, body
		"/html-as-png": {"image/png", "<a href=/hidden/1>x</a>"},
		"/html-as-pdf": {"application/pdf", "<a href=/hidden/2>x</a>"},
		"/png-as-html": {"text/html", png + strings.Repeat("\x00\xff\x10<", 5000)},
		"/exe-as-html": {"text/html; charset=utf-8", "MZ" + strings.Repeat("\x90\x00\x03\xfe",
			50_000)},
		"/upper":         {"TEXT/HTML", "<a href=/seen/upper>x</a>"},
		"/bad-charset":   {"text/html; charset=no-such-thing", "<a href=/seen/bad-charset>x</a>"},
		"/bad-parameter": {"text/html; =;;charset", "<a href=/seen/bad-parameter>x</a>"},
		"/two-types":     {"text/html, text/html", "<a href=/seen/two-types>x</a>"},
		"/no-slash":      {"html", "<a href=/maybe>x</a>"},
		"/long": {"text/html; x=" + strings.Repeat("y", 30_000),
			"<a href=/seen/long>x</a>"},
	}
	return Case{
		Name: "types", About: "a Content-Type that does not match the body",
		Bound: Bound{Requests: 20, Never: []string{"/hidden/*"},
			Want: []string{"/seen/upper", "/seen/bad-charset", "/seen/bad-parameter",
				"/seen/two-types", "/seen/long", "/png-as-html", "/exe-as-html", "/html-as-png"}},
		serve: func(x *exchange) {
			t, ok := typed[x.path]
			switch {
			case ok:
				x.answer(200, "Content-Type: "+t[0]+"\r\n", t[1])
			case x.path == "/":
				var hrefs []string
				for p := range typed {
					hrefs = append(hrefs, p)
				}
				x.page(linked("types", hrefs...))
			case x.path == "/robots.txt":
				x.missing()
			default:
				x.page(linked(x.path))
			}
		},
	}
}
