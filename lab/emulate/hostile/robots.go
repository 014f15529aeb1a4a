package hostile

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// The pages of every robots.txt case: one is allowed, the other is forbidden by the rule
// in forbids.
const (
	openPage    = "/open.html"
	privatePage = "/private/x.html"
	forbids     = "User-agent: *\nDisallow: /private/\n"
)

// robotsCase returns a case with these two pages.
func robotsCase(name, about string, b Bound, robots func(*exchange)) Case {
	if b.Requests == 0 {
		b.Requests = 2 * tries
	}
	return Case{
		Name: "robots-" + name, About: "robots.txt: " + about, Bound: b,
		serve: func(x *exchange) {
			switch {
			case strings.HasPrefix(x.path, "/robots"):
				robots(x)
			case x.path == "/":
				x.page(linked(name, openPage, privatePage, "/early/x", "/late/x"))
			case strings.HasSuffix(x.path, ".html"), strings.HasSuffix(x.path, "/x"):
				x.page(linked(name + x.path))
			default:
				x.missing()
			}
		},
	}
}

// The three possible meanings of a robots.txt.
var (
	obeyed = Bound{Want: []string{"/", openPage}, Never: []string{"/private/*"}}
	allows = Bound{Want: []string{"/", openPage, privatePage}}
	closed = Bound{Never: []string{"/", openPage, privatePage}, Repeat: tries,
		Want: []string{"/robots.txt"}}
)

func text(body string) func(*exchange) {
	return func(x *exchange) { x.answer(200, "Content-Type: text/plain\r\n", body) }
}

func status(code int) func(*exchange) {
	return func(x *exchange) { x.answer(code, htmlType, forbids) }
}

func robotsCases() []Case {
	var all []Case
	for _, code := range []int{401, 403, 404, 410} { // RFC 9309, section 2.3.1.3
		all = append(all, robotsCase(fmt.Sprint(code), fmt.Sprintf("answered %d, so all is allowed",
			code), allows, status(code)))
	}
	for _, code := range []int{500, 503} { // section 2.3.1.4
		all = append(all, robotsCase(fmt.Sprint(code),
			fmt.Sprintf("answered %d each time, so nothing is allowed", code),
			closed, status(code)))
	}
	recovering := obeyed
	recovering.Repeat = 3
	all = append(all, robotsCase("recovers", "answered 503 first, then given", recovering,
		func(x *exchange) {
			if x.nth == 0 {
				x.answer(503, htmlType, "busy")
				return
			}
			text(forbids)(x)
		}))
	all = append(all, slow(robotsCase("silent", "never answered, so nothing is allowed", closed,
		(*exchange).hang)))
	all = append(all, slow(robotsCase("drip",
		"one byte a second: never complete, so nothing is allowed", closed, func(x *exchange) {
			if x.begin("") {
				x.drip(forbids)
			}
		})))
	all = append(all, robotsCase("reset", "the connection is reset, so nothing is allowed", closed,
		func(x *exchange) {
			x.raw("HTTP/1.1 200 OK\r\n")
			x.reset()
		}))
	return append(append(all, robotsRedirects()...), robotsTexts()...)
}

// robotsRedirects returns cases with redirects of robots.txt (RFC 9309, section 2.3.1.2).
func robotsRedirects() []Case {
	path := robotsCase("redirect-path", "redirected to another path with the rules", obeyed,
		func(x *exchange) {
			if x.path == "/robots.txt" {
				x.redirect(301, "/robots/really.txt")
				return
			}
			text(forbids)(x)
		})
	other := obeyed
	host := robotsCase("redirect-host", "redirected to another host with the rules", other,
		func(x *exchange) {
			if strings.HasPrefix(x.host, "robots-") {
				x.redirect(301, x.url("www."+x.host+"/robots.txt"))
				return
			}
			text(forbids)(x)
		})
	host.Hosts = []string{"robots-redirect-host." + Domain, "www.robots-redirect-host." + Domain}
	six := robotsCase("redirect-six", "redirected six times: five are enough",
		Bound{Never: []string{"/robots/7"}, Want: []string{"/robots/5"}, Requests: 16},
		func(x *exchange) {
			x.redirect(302, fmt.Sprintf("/robots/%d", x.number()+1))
		})
	five := robotsCase("redirect-five", "redirected five times, and there are the rules", obeyed,
		func(x *exchange) {
			if n := x.number(); n < 5 {
				x.redirect(302, fmt.Sprintf("/robots/%d", n+1))
				return
			}
			text(forbids)(x)
		})
	loop := robotsCase("redirect-loop", "redirected to itself", Bound{Requests: 12, Repeat: 6},
		func(x *exchange) {
			x.redirect(301, "/robots.txt")
		})
	private := robotsCase("redirect-private", "redirected to a forbidden address",
		Bound{}, func(x *exchange) {
			x.redirect(301, x.at(x.c.forbid.String(), "/robots.txt"))
		})
	return []Case{path, host, five, six, loop, private}
}

// robotsTexts returns cases with files in odd forms.
func robotsTexts() []Case {
	filler := strings.Repeat("# nothing to see here, move along\n", 1<<20/34)
	early, late := filler[:100<<10]+"\n", filler[:900<<10]+"\n"
	utf16le := func(s string) string {
		out := []byte{0xff, 0xfe}
		for _, u := range utf16.Encode([]rune(s)) {
			out = append(out, byte(u), byte(u>>8))
		}
		return string(out)
	}
	big := obeyed
	big.Never = append([]string{"/early/*"}, big.Never...)
	cases := []Case{
		robotsCase("megabyte", "1 MB, with a rule within the first 500 KiB and one behind", big,
			text("User-agent: *\n"+early+"Disallow: /early/\nDisallow: /private/\n"+late+
				"Disallow: /late/\n")),
		robotsCase("endless", "no end; the rules at the start hold", obeyed, func(x *exchange) {
			if !x.begin("") || !x.raw(forbids) {
				return
			}
			for x.raw(filler[:64<<10]) {
			}
		}),
		robotsCase("long-line", "a line of 1 MB before the rule", Bound{Want: []string{"/"}},
			text("User-agent: *\n# "+strings.Repeat("x", 1<<20)+"\nDisallow: /private/\n")),
		robotsCase("bom", "begins with a byte order mark", obeyed, text("\ufeff"+forbids)),
		robotsCase("utf16", "in UTF-16, which it must not be", Bound{Want: []string{"/", openPage}},
			text(utf16le(forbids))),
		robotsCase("html", "is an HTML page", allows, func(x *exchange) {
			x.page(empty("Disallow: all", "/"))
		}),
		robotsCase("html-type", "has rules, and says that it is HTML", obeyed, func(x *exchange) {
			x.page(forbids)
		}),
		robotsCase("cr", "has CR line ends", obeyed, text(strings.ReplaceAll(forbids, "\n", "\r"))),
		robotsCase("crlf", "has CRLF line ends, comments and blanks", obeyed,
			text(" USER-AGENT : * # all\r\n\r\n  disallow\t:\t/private/ # no\r\n")),
		robotsCase("empty", "is empty", allows, text("")),
		robotsCase("binary", "is binary", allows, text(strings.Repeat("\x00\xff\x80:\n", 20_000))),
		robotsCase("no-agent", "has rules before any User-agent", allows,
			text("Disallow: /\nAllow: /x\n")),
		robotsCase("own-group", "has a group for all crawlers and a stricter one for another",
			obeyed,
			text("User-agent: otherbot\nDisallow: /\n\nUser-agent: *\nDisallow: /private/\n")),
		robotsCase("gzip", "is compressed, declared so", obeyed, func(x *exchange) {
			x.answer(200, "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n",
				gzipped(forbids))
		}),
		robotsCase("bomb", "is gigabytes of zeros as gzip",
			Bound{Repeat: tries, Requests: 2 * tries}, func(x *exchange) {
				x.gzipBomb(bombWire / len(deflated()))
			}),
		robotsCase("delay-garbage", "a Crawl-delay that is none", obeyed,
			text("User-agent: *\nDisallow: /private/\nCrawl-delay: soon\nCrawl-delay: -5\n"+
				"Crawl-delay: NaN\nCrawl-delay:\n")),
		robotsPatterns(),
	}
	for i, value := range []string{"1000000000", "1e300"} {
		c := robotsCase(fmt.Sprintf("delay-absurd-%d", i+1), "a Crawl-delay of "+value+" s",
			Bound{Requests: 3}, text("User-agent: *\nCrawl-delay: "+value+"\n"))
		c.Waits = true
		cases = append(cases, c)
	}
	return cases
}

// robotsPatterns has rules with "*", "$", escapes and ties (RFC 9309, section 2.2), and a
// page for each.
func robotsPatterns() Case {
	rules := `User-agent: *
Disallow: /*.pdf$
Disallow: /a*b*c
Disallow: /exact$
Disallow: /tie
Allow: /tie
Disallow: /long
Allow: /longer
Disallow: /%7Euser
Disallow: /ü
Disallow: /*?session=
Disallow: /stars` + strings.Repeat("*x", 40) + `$
`
	never := []string{"/doc.pdf", "/a1b2c3", "/exact", "/long", "/~user", "/%C3%BC", "/p?session=1"}
	want := []string{"/doc.pdf.html", "/a1c2b3", "/exact.html", "/tie", "/longer", "/p?other=1",
		"/stars" + strings.Repeat("x", 400) + "y"}
	c := robotsCase("patterns", "wildcards, ends, escapes and ties", Bound{Requests: 2 + len(want),
		Want: want, Never: never}, text(rules))
	plain := c.serve
	c.serve = func(x *exchange) {
		switch x.path {
		case "/robots.txt":
			plain(x)
		case "/":
			x.page(linked("patterns", append(want, never...)...))
		default:
			x.page(linked(x.target))
		}
	}
	return c
}
