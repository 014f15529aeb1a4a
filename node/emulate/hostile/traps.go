package hostile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// What a crawler may spend on a site that never ends, if its limits are set as
// low as fits a web where honest sites have a hundred pages at most.
const (
	patience  = 300 // where nothing but the number of pages tells
	impatient = 150 // where there is a pattern to see
)

// realPages are in every trap: what a crawler must not lose by leaving it.
const realPages = 12

// trap returns a case whose pages are real ones from /real/1 on, and what
// inside answers. The root links to the real pages and to entries.
func trap(name, about string, requests int, entries []string, inside func(*exchange)) Case {
	c := Case{Name: name, About: about, Bound: Bound{Requests: requests, Want: append(numbered("/real/", realPages), entries...)}}
	c.serve = func(x *exchange) {
		switch {
		case x.path == "/":
			x.page(linked(name, append(numbered("/real/", realPages), entries...)...))
		case x.path == "/robots.txt":
			x.missing()
		case strings.HasPrefix(x.path, "/real/"):
			x.page(linked(name+x.path, "/"))
		default:
			inside(x)
		}
	}
	return c
}

func trapCases() []Case {
	subdomains := trap("subdomains", "each page links to three hosts that nobody has seen", impatient, nil, nil)
	subdomains.Hosts = []string{"subdomains." + Domain, "*.subdomains." + Domain}
	subdomains.Bound.Lookups = 3 * impatient
	real := subdomains.serve
	subdomains.serve = func(x *exchange) {
		if x.host == subdomains.Hosts[0] && x.path != "/" {
			real(x)
			return
		}
		var hrefs []string
		if x.host == subdomains.Hosts[0] {
			hrefs = numbered("/real/", realPages)
		}
		for range 3 {
			hrefs = append(hrefs, x.url(token()+".subdomains."+Domain+"/"))
		}
		if x.path == "/robots.txt" {
			x.missing()
			return
		}
		x.page(empty("a host", hrefs...))
	}
	return []Case{
		trap("calendar", "months without end, with their days", patience, []string{"/events/2026/11/"}, calendar),
		trap("session-query", "a new session in the query of each link", impatient, []string{"/item?id=1"}, func(x *exchange) {
			x.page(linked("item"+field(x.query, "id"), each(8, func(i int) string { return fmt.Sprintf("/item?PHPSESSID=%s&id=%d", token(), i) })...))
		}),
		trap("session-path", "a new session in the path of each link", impatient, []string{"/s/0/item/1"}, func(x *exchange) {
			x.page(linked("item"+strconv.Itoa(x.number()), each(8, func(i int) string { return fmt.Sprintf("/s/%s/item/%d", token(), i) })...))
		}),
		trap("session-param", "a new session in a path parameter of each link", impatient, []string{"/item/1"}, func(x *exchange) {
			path, _, _ := strings.Cut(x.path, ";")
			x.page(linked("item"+path, each(8, func(i int) string { return fmt.Sprintf("/item/%d;jsessionid=%s", i, token()) })...))
		}),
		trap("facets", "a shop whose filters combine in every order", patience, []string{"/shop"}, facets),
		trap("repeating", "relative links that go deeper and deeper", patience, []string{"/docs/"}, func(x *exchange) {
			x.page(empty("folder", "docs/", "news/", "docs/index.html"))
		}),
		trap("counter", "numbered pages without end and without content", patience, []string{"/n/1"}, func(x *exchange) {
			x.page(empty("page", fmt.Sprintf("/n/%d", x.number()+1), fmt.Sprintf("/n/%d", x.number()+10)))
		}),
		trap("soft-404", "every page exists, says so with 200, and links to more", patience, []string{"/missing/page"}, func(x *exchange) {
			x.page(empty("Oops", each(5, func(int) string { return "/" + token() + "/" + token() })...))
		}),
		trap("long-query", "each page adds a parameter to its own URL", impatient, []string{"/list?p=1"}, func(x *exchange) {
			x.page(empty("list", x.target+"&p=1", x.target+"&q="+token()))
		}),
		trap("refresh", "pages that refresh to themselves and to ever new ones", impatient, []string{"/refresh/self", "/refresh/1"}, func(x *exchange) {
			to := x.target
			if x.path != "/refresh/self" {
				to = fmt.Sprintf("/refresh/%d", x.number()+1)
			}
			x.page(`<meta http-equiv="refresh" content="0; url=` + to + `"><p>One moment`)
		}),
		trap("random", "a maze of random words: new links, new text", patience, []string{"/maze/"}, func(x *exchange) {
			x.page(linked(x.path, each(10, func(int) string { return "/maze/" + token() })...))
		}),
		subdomains,
		mirrors(),
		honestPagination(), honestDepth(), honestParameters(),
	}
}

// token is what no crawler has seen before.
func token() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

func each(n int, f func(i int) string) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = f(i + 1)
	}
	return s
}

// field is a value of a query, not decoded.
func field(query, name string) string {
	for p := range strings.SplitSeq(query, "&") {
		if v, ok := strings.CutPrefix(p, name+"="); ok {
			return v
		}
	}
	return ""
}

func calendar(x *exchange) {
	var year, month, day int
	if n, _ := fmt.Sscanf(x.path, "/events/%d/%d/%d", &year, &month, &day); n < 2 || month < 1 || month > 12 {
		x.missing()
		return
	}
	at := func(m int) string {
		m += year*12 + month - 1
		return fmt.Sprintf("/events/%d/%02d/", m/12, m%12+1)
	}
	hrefs := []string{at(1), at(-1), at(12)}
	for d := 1; d <= 28 && day == 0; d++ {
		hrefs = append(hrefs, fmt.Sprintf("%s%02d", at(0), d))
	}
	x.page(empty(fmt.Sprintf("Events %d/%d", year, month), hrefs...))
}

// facets of a shop: each link adds one filter to those that are set.
func facets(x *exchange) {
	if strings.HasPrefix(x.path, "/product/") {
		x.page(linked(x.path, "/shop"))
		return
	}
	var hrefs []string
	for name, values := range map[string][]string{
		"color": {"red", "green", "blue", "black"}, "size": {"s", "m", "l", "xl"}, "sort": {"price", "name", "new"},
		"brand": {"acme", "umbrella", "globex"}, "view": {"grid", "list"}, "page": {"2", "3", "4"},
	} {
		for _, v := range values {
			if field(x.query, name) == "" {
				hrefs = append(hrefs, "/shop?"+strings.TrimPrefix(x.query+"&"+name+"="+v, "&"))
			}
		}
	}
	slices.Sort(hrefs)
	x.page("<title>Shop</title><p>Our goods." + anchors(append(numbered("/product/", 20), hrefs...)))
}

// mirrors are two hosts with the same pages.
func mirrors() Case {
	const pages = 40
	c := Case{
		Name: "mirrors", About: "two hosts with the same pages",
		Hosts: []string{"mirrors." + Domain, "www.mirrors." + Domain},
		Bound: Bound{Requests: 2 * (pages + 2), Want: numbered("*mirrors."+Domain+"/p/", pages)},
	}
	c.serve = func(x *exchange) {
		switch {
		case x.path == "/":
			x.page(linked("mirror", append(numbered("/p/", pages), x.url(c.Hosts[0]+"/"), x.url(c.Hosts[1]+"/"))...))
		case strings.HasPrefix(x.path, "/p/"):
			x.page(linked(x.path, "/"))
		default:
			x.missing()
		}
	}
	return c
}

// honestPagination looks like counter, and every page is worth it.
func honestPagination() Case {
	const pages = 60
	return Case{
		Name: "honest-pagination", About: "60 numbered pages, each with a text of its own: all are wanted",
		Bound: Bound{Requests: pages + 2, Want: numbered("/archive?page=", pages)},
		serve: func(x *exchange) {
			n, _ := strconv.Atoi(field(x.query, "page"))
			switch {
			case x.path == "/":
				x.page(linked("archive", "/archive?page=1"))
			case x.path == "/archive" && n < pages:
				x.page(linked(x.target, fmt.Sprintf("/archive?page=%d", n+1)))
			case x.path == "/archive":
				x.page(linked(x.target))
			default:
				x.missing()
			}
		},
	}
}

// honestDepth looks like repeating: a long path in which names come again.
func honestDepth() Case {
	const file = "/docs/api/v1/docs/api/guide/a/b/c/index.html"
	return Case{
		Name: "honest-depth", About: "a deep path in which names come again: it is wanted",
		Bound: Bound{Requests: 6, Want: []string{file, "/2026/11/11/11"}},
		serve: func(x *exchange) {
			switch x.path {
			case "/":
				x.page(linked("depth", file, "/2026/11/11/11"))
			case file, "/2026/11/11/11":
				x.page(linked(x.path))
			default:
				x.missing()
			}
		},
	}
}

// honestParameters looks like session-query and facets: long tokens in the
// query that name different pages.
func honestParameters() Case {
	ids := each(40, func(i int) string {
		return fmt.Sprintf("/doc?lang=%s&id=%032x", []string{"en", "fr"}[i%2], i*0x9e3779b97f4a7)
	})
	return Case{
		Name: "honest-parameters", About: "pages named by long parameters: all are wanted",
		Bound: Bound{Requests: len(ids) + 3, Want: ids},
		serve: func(x *exchange) {
			switch x.path {
			case "/":
				x.page(linked("parameters", ids...))
			case "/doc":
				x.page(linked(x.target))
			default:
				x.missing()
			}
		},
	}
}
