package hostile

import "strings"

func framingCases() []Case {
	return []Case{
		framing("chunks", "invalid chunked bodies", map[string]string{
			"size-text":  "zz\r\n<p>x\r\n0\r\n\r\n",
			"size-minus": "-5\r\n<p>x\r\n0\r\n\r\n",
			"size-huge":  "ffffffffffffffff1\r\n<p>x\r\n0\r\n\r\n",
			"size-max":   "7fffffffffffffff\r\n<p>x\r\n",
			"no-crlf":    "5\r\n<p>xyz0\r\n\r\n",
			"no-end":     "5\r\n<p>xy\r\n",
			"extension":  "5;" + strings.Repeat("x", 1<<20) + "\r\n<p>xy\r\n0\r\n\r\n",
			"one-byte":   strings.Repeat("1\r\nx\r\n", 200_000) + "0\r\n\r\n",
			"trailer": "5\r\n<p>xy\r\n0\r\n" + strings.Repeat("X-Trailer: 1\r\n", 100_000) +
				"\r\n",
		}, func(body string) string { return "Transfer-Encoding: chunked\r\n\r\n" + body }),
		framing("lengths", "Content-Length that is wrong", map[string]string{
			"too-long": "Content-Length: 1000\r\n\r\n<p>x",
			"two": "Content-Length: 4\r\nContent-Length: 40\r\n\r\n<p>x" + strings.Repeat("y",
				36),
			"list":      "Content-Length: 4, 40\r\n\r\n<p>x" + strings.Repeat("y", 36),
			"minus":     "Content-Length: -1\r\n\r\n<p>x",
			"text":      "Content-Length: four\r\n\r\n<p>x",
			"plus":      "Content-Length: +4\r\n\r\n<p>x",
			"overflow":  "Content-Length: 99999999999999999999\r\n\r\n<p>x",
			"petabytes": "Content-Length: 1125899906842624\r\n\r\n<p>x",
			"other-te":  "Transfer-Encoding: gzip, identity\r\n\r\n<p>x",
			"with-te": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"5\r\n<p>xy\r\n0\r\n\r\n",
			"two-te": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"5\r\n<p>xy\r\n0\r\n\r\n",
		}, func(s string) string { return s }),
		smuggle(),
		heads("body-reset", "the connection is reset within the body", Bound{Repeat: tries},
			func(x *exchange) {
				x.status = 200
				x.raw("HTTP/1.1 200 OK\r\n" + htmlType + "Content-Length: 1000\r\n\r\n<p>half")
				x.reset()
			}),
	}
}

// framing returns a case with a page for each of the bodies. The connection ends after
// each.
func framing(name, about string, bodies map[string]string, form func(string) string) Case {
	var hrefs []string
	for k := range bodies {
		hrefs = append(hrefs, "/framing/"+k)
	}
	return Case{
		Name: name, About: about,
		Bound: Bound{Requests: tries*len(bodies) + 3, Repeat: tries, Want: append(hrefs, "/good")},
		serve: func(x *exchange) {
			kind, ok := strings.CutPrefix(x.path, "/framing/")
			switch {
			case ok:
				x.status = 200
				x.raw("HTTP/1.1 200 OK\r\n" + htmlType + form(bodies[kind]))
				x.cut()
			case x.path == "/":
				x.page(linked(name, append(hrefs, "/good")...))
			case x.path == "/good":
				x.page(linked("good"))
			default:
				x.missing()
			}
		},
	}
}

// smuggle sends more than it announced: a complete answer, which the client must not
// treat as the answer to the next request of the connection.
func smuggle() Case {
	const poison = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 24\r\n\r\n" +
		"<a href=/poison>poison..."
	pages := numbered("/page/", 8)
	return Case{
		Name: "smuggle", About: "an answer that is followed by an unrequested one",
		Bound: Bound{Requests: tries * 12, Repeat: tries, Want: append(pages, "/good"),
			Never: []string{"/poison"}},
		serve: func(x *exchange) {
			switch {
			case x.path == "/":
				x.page(linked("smuggle", append(pages, "/good")...))
			case strings.HasPrefix(x.path, "/page/"):
				x.page(linked(x.path))
				x.raw(poison)
			case x.path == "/good":
				x.page(linked(x.path))
			default:
				x.missing()
			}
		},
	}
}
