package hostile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The number of requests that a crawler with its default limits may spend on an endless site.
const (
	patience  = 1000 // if only what the pages add reveals the trap
	impatient = 150  // if the URL reveals it
)

// realPages is the number of real pages of every trap, which a crawler must not miss.
const realPages = 12

// trap returns a case with real pages from /real/1 on and the pages that inside serves.
// The root links to the real pages and to entries.
func trap(name, about string, requests int, entries []string, inside func(*exchange)) Case {
	c := Case{Name: name, About: about, Bound: Bound{Requests: requests,
		Want: append(numbered("/real/", realPages), entries...)}}
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
	return []Case{
		trap("calendar", "an endless calendar of months and days", patience,
			[]string{"/events/2026/11/"}, calendar),
		trap("session-query", "a new session in the query of each link", impatient,
			[]string{"/item?id=1"}, func(x *exchange) {
				x.page(linked("item"+field(x.query, "id"), each(8, func(i int) string {
					return fmt.Sprintf("/item?PHPSESSID=%s&id=%d", token(), i)
				})...))
			}),
		trap("session-path", "a new session in the path of each link", patience,
			[]string{"/s/0/item/1"}, func(x *exchange) {
				x.page(linked("item"+strconv.Itoa(x.number()), each(8, func(i int) string {
					return fmt.Sprintf("/s/%s/item/%d", token(), i)
				})...))
			}),
		trap("session-param", "a new session in a path parameter of each link", impatient,
			[]string{"/item/1"}, func(x *exchange) {
				path, _, _ := strings.Cut(x.path, ";")
				x.page(linked("item"+path, each(8, func(i int) string {
					return fmt.Sprintf("/item/%d;jsessionid=%s", i, token())
				})...))
			}),
		trap("facets", "a shop with filters that combine in every order", patience,
			[]string{"/shop"}, facets),
		trap("repeating", "relative links that go deeper and deeper", patience, []string{"/docs/"},
			func(x *exchange) {
				x.page(empty("folder", "docs/", "news/", "docs/index.html"))
			}),
		trap("counter", "endless numbered pages without content", patience,
			[]string{"/n/1"}, func(x *exchange) {
				x.page(empty("page", fmt.Sprintf("/n/%d", x.number()+1),
					fmt.Sprintf("/n/%d", x.number()+10)))
			}),
		trap("soft-404", "every path answers 200 and links to more", patience,
			[]string{"/missing/page"}, func(x *exchange) {
				x.page(empty("Oops", each(5, func(int) string {
					return "/" + token() + "/" + token()
				})...))
			}),
		trap("long-query", "each page adds a parameter to its own URL", patience,
			[]string{"/list?p=1"}, func(x *exchange) {
				x.page(empty("list", x.target+"&p=1", x.target+"&q="+token()))
			}),
		trap("refresh", "pages that refresh to themselves and to ever new ones", patience,
			[]string{"/refresh/self", "/refresh/1"}, refresh),
		trap("random", "a maze of random words: new links, new text", patience, []string{"/maze/"},
			func(x *exchange) {
				x.page(linked(x.path, each(10, func(int) string { return "/maze/" + token() })...))
			}),
		trap("agenda", "an endless calendar of days, each with a text of its own", patience,
			[]string{"/agenda?year=2026&month=11&day=22"}, agenda),
		trap("growing-path", "each page links to folders in its own", patience,
			[]string{"/browse/"}, func(x *exchange) {
				x.page(empty("folder", each(5, func(int) string { return word() + "/" })...))
			}),
		trap("filters", "a shop with any of eight filters, and the goods that pass them", patience,
			append(numbered("/goods/", 30), "/list"), filters),
		trap("echo", "every path answers 200, repeats the path, and links to more", patience,
			[]string{"/lost/page"}, func(x *exchange) {
				about := strings.NewReplacer("/", " ", "-", " ").Replace(x.path)
				x.page(empty("No "+about, each(6, func(int) string {
					return "/" + word() + "-" + word() + "/" + word()
				})...))
			}),
		trap("maze", "numbered pages with random text, each with a link to log in", patience,
			[]string{"/maze/1"}, maze),
		trap("deep-maze", "random text in random folders of any depth", patience,
			[]string{"/deep/"}, func(x *exchange) {
				x.page(linked(x.path, each(4, func(int) string { return token()[:12] + "/" })...))
			}),
		subdomains(),
		mirrors(),
		honestPagination(), honestDepth(), honestParameters(), honestForum(), honestList(),
	}
}

// subdomains is a trap that consists of hosts instead of pages.
func subdomains() Case {
	c := trap("subdomains", "each page links to three new hosts", patience, nil, nil)
	c.Hosts = []string{"subdomains." + Domain, "*.subdomains." + Domain}
	c.Bound.Lookups = patience
	real := c.serve
	c.serve = func(x *exchange) {
		if x.host == c.Hosts[0] && x.path != "/" {
			real(x)
			return
		}
		var hrefs []string
		if x.host == c.Hosts[0] {
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
	return c
}

// token returns a new random string.
func token() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) }

func each(n int, f func(i int) string) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = f(i + 1)
	}
	return s
}

// field returns a value of a query, not decoded.
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
	if n, _ := fmt.Sscanf(x.path, "/events/%d/%d/%d", &year, &month, &day); n < 2 || month < 1 ||
		month > 12 {
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

// facets serves a shop in which each link adds one filter to the current ones.
func facets(x *exchange) {
	if strings.HasPrefix(x.path, "/product/") {
		x.page(linked(x.path, "/shop"))
		return
	}
	var hrefs []string
	for name, values := range map[string][]string{
		"color": {"red", "green", "blue", "black"}, "size": {"s", "m", "l", "xl"},
		"sort":  {"price", "name", "new"},
		"brand": {"acme", "umbrella", "globex"}, "view": {"grid", "list"}, "page": {"2", "3", "4"},
	} {
		for _, v := range values {
			if field(x.query, name) == "" {
				hrefs = append(hrefs, "/shop?"+strings.TrimPrefix(x.query+"&"+name+"="+v, "&"))
			}
		}
	}
	slices.Sort(hrefs)
	x.page("<title>Shop</title><p>Our goods." +
		anchors(append(numbered("/product/", 20), hrefs...)))
}

// refresh serves a page that refreshes to itself or to a new one.
func refresh(x *exchange) {
	to := x.target
	if x.path != "/refresh/self" {
		to = fmt.Sprintf("/refresh/%d", x.number()+1)
	}
	x.page(`<meta http-equiv="refresh" content="0; url=` + to + `"><p>One moment`)
}

// word returns a random word.
func word() string { return words[rand.IntN(len(words))] }

// agenda serves one day, with links to those before and after it.
func agenda(x *exchange) {
	at := func(name string) int { n, _ := strconv.Atoi(field(x.query, name)); return n }
	day := time.Date(at("year"), time.Month(at("month")), at("day"), 0, 0, 0, 0, time.UTC)
	var hrefs []string
	for _, step := range []int{-365, -30, -7, -1, 1, 7, 30, 365} {
		hrefs = append(hrefs, day.AddDate(0, 0, step).Format("/agenda?year=2006&month=1&day=2"))
	}
	x.page(linked(x.target, hrefs...))
}

// filters serves a list of goods. Each link adds or removes one filter.
func filters(x *exchange) {
	if strings.HasPrefix(x.path, "/goods/") {
		x.page(linked(x.path, "/list"))
		return
	}
	const goods, choices = 30, 3
	names := []string{"brand", "color", "form", "length", "maker", "price", "size", "weight"}
	passes := func(good int) bool {
		for i, name := range names {
			if v := field(x.query, name); v != "" && v != strconv.Itoa(good*(i+3)/2%choices) {
				return false
			}
		}
		return true
	}
	var body strings.Builder
	body.WriteString("<title>Goods</title>")
	for i := range goods {
		if passes(i + 1) {
			fmt.Fprintf(&body, "<p><a href=/goods/%d>%.200s</a>", i+1, prose(strconv.Itoa(i)))
		}
	}
	for _, name := range names {
		for v := range choices {
			var q []string
			for _, n := range names {
				switch old := field(x.query, n); {
				case n == name && old != strconv.Itoa(v):
					q = append(q, fmt.Sprintf("%s=%d", n, v))
				case n != name && old != "":
					q = append(q, n+"="+old)
				}
			}
			body.WriteString(anchors([]string{"/list?" + strings.Join(q, "&")}))
		}
	}
	x.page(body.String())
}

// maze serves a page with links to random others, and the page to log in.
func maze(x *exchange) {
	if x.path == "/login" {
		x.page(empty("Log in") + prose("log in"))
		return
	}
	x.page(linked(x.path, append(each(10, func(int) string {
		return fmt.Sprintf("/maze/%d", rand.Uint32())
	}), "/login?return="+x.path)...))
}

// mirrors has two hosts with the same pages.
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
			x.page(linked("mirror", append(numbered("/p/", pages), x.url(c.Hosts[0]+"/"),
				x.url(c.Hosts[1]+"/"))...))
		case strings.HasPrefix(x.path, "/p/"):
			x.page(linked(x.path, "/"))
		default:
			x.missing()
		}
	}
	return c
}

// honestPagination resembles counter, but every page has content.
func honestPagination() Case {
	const pages = 60
	return Case{
		Name:  "honest-pagination",
		About: "60 numbered pages, each with a text of its own: all are wanted",
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

// honestDepth resembles repeating: a long path with repeated names.
func honestDepth() Case {
	const file = "/docs/api/v1/docs/api/guide/a/b/c/index.html"
	return Case{
		Name: "honest-depth", About: "a deep path with repeated names: it is wanted",
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

// honestParameters resembles session-query and facets: long tokens in the query name
// different pages.
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

// honestForum has more threads than any trap may have requests. Each links to the next and
// the previous one, to some others, and to its author.
func honestForum() Case {
	const threads, perPage, authors = 1100, 25, 200
	c := Case{
		Name:  "honest-forum",
		About: "threads with a text of their own, on a list of many pages: all are wanted",
		Bound: Bound{Requests: threads + threads/perPage + authors + 2,
			Want: slices.Concat(each(threads, func(i int) string {
				return fmt.Sprintf("/viewtopic.php?t=%d", i)
			}), numbered("/members/", authors))},
	}
	c.serve = func(x *exchange) {
		topic := func(n int) string {
			return fmt.Sprintf("/viewtopic.php?t=%d", (n+threads-1)%threads+1)
		}
		switch n, _ := strconv.Atoi(field(x.query, "t")); {
		case x.path == "/":
			x.page(linked("forum", "/viewforum.php?page=1"))
		case x.path == "/viewforum.php":
			page, _ := strconv.Atoi(field(x.query, "page"))
			hrefs := each(perPage, func(i int) string { return topic((page-1)*perPage + i) })
			if page < threads/perPage {
				hrefs = append(hrefs, fmt.Sprintf("/viewforum.php?page=%d", page+1))
			}
			x.page(linked(x.target, hrefs...))
		case x.path == "/viewtopic.php":
			x.page(linked(x.target, topic(n-1), topic(n+1), topic(n*7+3), topic(n*13+5),
				fmt.Sprintf("/members/%d", n%authors+1)))
		case strings.HasPrefix(x.path, "/members/"):
			x.page(linked(x.path))
		default:
			x.missing()
		}
	}
	return c
}

// honestList resembles counter: the pages of the list have no text of their own, but they
// link to pages that have.
func honestList() Case {
	const pages, perPage = 350, 3
	c := Case{
		Name:  "honest-list",
		About: "pages without text of their own that link to others with text: all are wanted",
		Bound: Bound{Requests: pages*(perPage+1) + 2, Want: numbered("/photo/", pages*perPage)},
	}
	c.serve = func(x *exchange) {
		n := x.number()
		switch {
		case x.path == "/":
			x.page(linked("photos", "/album/1"))
		case strings.HasPrefix(x.path, "/album/"):
			hrefs := each(perPage, func(i int) string {
				return fmt.Sprintf("/photo/%d", (n-1)*perPage+i)
			})
			if n < pages {
				hrefs = append(hrefs, fmt.Sprintf("/album/%d", n+1))
			}
			x.page(empty("album", hrefs...))
		case strings.HasPrefix(x.path, "/photo/"):
			x.page(linked(x.path))
		default:
			x.missing()
		}
	}
	return c
}
