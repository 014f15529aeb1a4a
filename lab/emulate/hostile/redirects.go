package hostile

import (
	"fmt"
	"strings"
)

// maxHops is the maximum number of successive redirects that a client follows, 20 as in
// browsers (Fetch Standard, "HTTP-redirect fetch").
const maxHops = 20

func redirectCases() []Case {
	cases := []Case{
		{
			Name: "redirect-self", About: "a page that redirects to itself",
			Bound: Bound{Requests: 3, Want: []string{"/"}},
			serve: func(x *exchange) { x.redirect(302, x.target) },
		},
		{
			Name:  "redirect-pair",
			About: "two pages that redirect to each other, and the same with permanent redirects",
			Bound: Bound{Requests: 6, Want: []string{"/a", "/b"}},
			Seeds: []string{"redirect-pair." + Domain + "/a", "redirect-pair." + Domain + "/c"},
			serve: func(x *exchange) {
				to := map[string]string{"/a": "/b", "/b": "/a", "/c": "/d", "/d": "/c"}[x.path]
				x.redirect(map[bool]int{true: 302, false: 308}[x.path < "/c"], to)
			},
		},
		{
			Name: "redirect-growing", About: "a redirect to itself with an ever longer query",
			Bound: Bound{Requests: maxHops + 3, Want: []string{"/"}},
			serve: func(x *exchange) {
				sep := "?"
				if x.query != "" {
					sep = "&"
				}
				x.redirect(302, x.target+sep+"again=1")
			},
		},
		{
			Name:  "redirect-chain",
			About: "fifty redirects in a row, and five that are worth following",
			Bound: Bound{Requests: maxHops + 11, Want: []string{"/", "/far/1", "/near/5",
				"/arrived"}, Never: []string{"/far/50", "/never"}},
			serve: chain,
		},
		{
			Name:  "redirect-kinds",
			About: "every status with every form of Location, most of them wrong",
			Bound: Bound{Requests: 60, Repeat: 1,
				Want: []string{"/", "/to/absolute", "/to/relative", "/to/slashes", "/to/padded",
					"/to/see-other", "/to/permanent", "other.redirect-kinds." + Domain + "/x"},
				Never: []string{"*passwd*", "*evil*", "/to/nothing*", "/to/body",
					"/to/unmodified"}},
			Hosts: []string{"redirect-kinds." + Domain, "other.redirect-kinds." + Domain},
			serve: redirectKinds,
		},
	}
	for i := range cases {
		pages := cases[i].serve
		cases[i].serve = func(x *exchange) {
			if x.path == "/robots.txt" {
				x.missing()
				return
			}
			pages(x)
		}
	}
	return cases
}

func chain(x *exchange) {
	switch n := x.number(); {
	case x.path == "/":
		x.page(linked("chain", "/far/1", "/near/1"))
	case strings.HasPrefix(x.path, "/far/") && n < 50:
		x.redirect(301, fmt.Sprintf("/far/%d", n+1))
	case strings.HasPrefix(x.path, "/near/") && n < 5:
		x.redirect(301, fmt.Sprintf("/near/%d", n+1))
	case strings.HasPrefix(x.path, "/near/"):
		x.redirect(302, "/arrived")
	case x.path == "/arrived":
		x.page(linked("arrived"))
	default:
		x.missing()
	}
}

func redirectKinds(x *exchange) {
	to := map[string]string{
		"/absolute": x.url("/to/absolute"), "/relative": "to/relative", "/slashes": "//" +
			strings.TrimPrefix(x.url("/to/slashes"), "http://"),
		"/padded": " \t/to/padded ", "/other": x.url("other.redirect-kinds." + Domain + "/x"),
		"/ftp": "ftp://" + x.host + "/evil", "/javascript": "javascript:alert('/evil')",
		"/data": "data:text/html,<a href='/evil'>x</a>",
		"/file": "file:///etc/passwd", "/mailto": "mailto:evil@" + x.host, "/blank": "",
		"/nohost": "http:///", "/port": "http://" + x.host + ":99999/evil",
		"/bracket": "http://[::1/evil", "/control": "/to/\x01\x7f", "/bytes": "/to/\xff\xfe",
		"/long":   "/evil/" + strings.Repeat("x", 40_000),
		"/spaces": "/to/with some spaces", "/backslash": "\\\\evil\\evil",
		"/fragment": "/to/absolute#fragment",
	}
	switch loc, ok := to[x.path]; {
	case x.path == "/":
		hrefs := []string{"/see-other", "/permanent", "/none", "/choices", "/unmodified", "/proxy",
			"/body"}
		for k := range to {
			hrefs = append(hrefs, k)
		}
		x.page(linked("redirects", hrefs...))
	case ok:
		x.redirect(302, loc)
	case x.path == "/see-other":
		x.redirect(303, "/to/see-other")
	case x.path == "/permanent":
		x.redirect(308, "/to/permanent")
	case x.path == "/none":
		x.answer(302, htmlType, empty("no location", "/to/nothing"))
	case x.path == "/choices":
		x.answer(300, htmlType, empty("choose"))
	case x.path == "/unmodified":
		x.answer(304, "Location: /to/unmodified\r\n", "")
	case x.path == "/proxy":
		x.answer(305, "Location: http://evil."+Domain+"/\r\n", "")
	case x.path == "/body":
		x.answer(302, htmlType+"Location: /to/absolute\r\n", empty("moved", "/to/body"))
	case strings.HasPrefix(x.path, "/to/"), x.path == "/x":
		x.page(linked(x.host + x.path))
	default:
		x.missing()
	}
}
