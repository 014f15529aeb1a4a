package hostile

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// kept is the number of bytes that a fetch may take of an answer that it aborts: its own
// limit and the buffers of the system, which are full while the machine is busy.
var kept = 2<<20 + largestBuffer("tcp_rmem", 6<<20) + largestBuffer("tcp_wmem", 4<<20)

// largestBuffer returns the limit of Linux in bytes for one kind of TCP buffer, and not less
// than usual.
func largestBuffer(kind string, usual int64) int64 {
	text, err := os.ReadFile("/proc/sys/net/ipv4/" + kind)
	if err != nil {
		return usual
	}
	fields := strings.Fields(string(text)) // minimum, default, maximum
	n, _ := strconv.ParseInt(fields[len(fields)-1], 10, 64)
	return max(n, usual)
}

func headCases() []Case {
	return []Case{
		heads("head-huge", "a header field of 10 MB", Bound{Sent: kept}, func(x *exchange) {
			x.raw("HTTP/1.1 200 OK\r\nX-Big: ")
			for range 160 {
				if !x.raw(strings.Repeat("x", 64<<10)) {
					return
				}
			}
			x.raw("\r\nContent-Length: 0\r\n\r\n")
		}),
		heads("head-many", "100,000 header fields", Bound{Sent: kept}, func(x *exchange) {
			x.raw("HTTP/1.1 200 OK\r\n")
			for i := range 1000 {
				var s strings.Builder
				for k := range 100 {
					fmt.Fprintf(&s, "X-Field-%d: value-%d\r\n", i*100+k, k)
				}
				if !x.raw(s.String()) {
					return
				}
			}
			x.raw("Content-Length: 0\r\n\r\n")
		}),
		heads("head-1xx", "endless interim answers", Bound{Sent: kept}, func(x *exchange) {
			hints := strings.Repeat(
				"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n", 100)
			for x.raw(hints) {
			}
		}),
		heads("head-reset", "the connection is reset within the head", Bound{Repeat: tries},
			func(x *exchange) {
				x.raw("HTTP/1.1 200 OK\r\nContent-Ty")
				x.reset()
			}),
		heads("head-cut", "the connection ends within the head, or before it", Bound{Repeat: tries},
			func(x *exchange) {
				if x.path == "/bad/1" {
					x.raw("HTTP/1.1 200 OK\r\nContent-Ty")
				}
				x.cut()
			}),
		slow(heads("head-drip", "one byte a second", Bound{Repeat: tries}, func(x *exchange) {
			x.drip("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" +
				strings.Repeat("X-More: 1\r\n", 1000))
		})),
		slow(heads("head-none", "no answer ever", Bound{Repeat: tries}, (*exchange).hang)),
		oddHeads(),
	}
}

func slow(c Case) Case {
	c.Slow = true
	return c
}

// heads returns a case with two bad answers and a good page after them, which must still
// be fetched.
func heads(name, about string, b Bound, bad func(*exchange)) Case {
	b.Want = append(b.Want, "/", "/bad/1", "/bad/2", "/good")
	b.Requests = 4 + 2*max(b.Repeat, 1)
	return Case{Name: name, About: about, Bound: b, serve: func(x *exchange) {
		switch {
		case x.path == "/":
			x.page(linked(name, "/bad/1", "/bad/2", "/good"))
		case x.path == "/good":
			x.page(linked(name + "good"))
		case strings.HasPrefix(x.path, "/bad/"):
			x.over = true
			bad(x)
		default:
			x.missing()
		}
	}}
}

// odd are malformed answers, by path. Those that a lenient client accepts link to
// /seen/NAME.
var odd = map[string]string{
	"http09":     "<html><a href=/poison>no head at all</a>",
	"garbage":    "\x00\x01\x02\x03\xff\xfe\r\n\r\n",
	"ssh":        "SSH-2.0-OpenSSH_9.9\r\n",
	"status-big": "HTTP/1.1 99999 What\r\nContent-Length: 0\r\n\r\n",
	"status-000": "HTTP/1.1 000 Zero\r\nContent-Length: 0\r\n\r\n",
	"status-999": "HTTP/1.1 999 Request denied\r\nContent-Length: 0\r\n\r\n",
	"status-neg": "HTTP/1.1 -20 Minus\r\nContent-Length: 0\r\n\r\n",
	"status-txt": "HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n",
	"version":    "HTTP/7.3 200 OK\r\nContent-Length: 0\r\n\r\n",
	"icy":        "ICY 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n",
	"switch": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" +
		"Connection: Upgrade\r\n\r\n<a href=/poison>",
	"no-colon":   "HTTP/1.1 200 OK\r\nthis is no field\r\nContent-Length: 0\r\n\r\n",
	"nul":        "HTTP/1.1 200 OK\r\nX-Nul: a\x00b\r\nContent-Length: 0\r\n\r\n",
	"blank-name": "HTTP/1.1 200 OK\r\n : x\r\nContent-Length: 0\r\n\r\n",
	"fold": "HTTP/1.1 200 OK\r\nContent-Type: text/html;\r\n charset=utf-8\r\n" +
		"Connection: close\r\n\r\n<a href=/seen/fold>",
	"lf": "HTTP/1.1 200 OK\nContent-Type: text/html\nConnection: close\n\n" +
		"<a href=/seen/lf>",
	"lower": "http/1.1 200 ok\r\ncontent-length: 0\r\n\r\n",
	"no-reason": "HTTP/1.1 200\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" +
		"<a href=/seen/no-reason>",
	"no-type": "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<a href=/seen/no-type>",
	"204":     "HTTP/1.1 204 No Content\r\nContent-Type: text/html\r\n\r\n<a href=/poison>",
	"206": "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/100\r\n" +
		"Content-Type: text/html\r\nContent-Length: 10\r\n\r\n<p>partial",
	"early": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" +
		"<a href=/seen/early>",
}

// oddHeads serves all malformed answers. Links of answers that a client accepts in spite
// of their faults may be followed; those of answers that are not pages must not.
func oddHeads() Case {
	var hrefs []string
	for k := range odd {
		hrefs = append(hrefs, "/odd/"+k)
	}
	return Case{
		Name: "head-odd", About: "malformed HTTP answers",
		Bound: Bound{Requests: tries*len(odd) + 10, Repeat: tries, Never: []string{"/poison"},
			Want: append(hrefs, "/seen/no-reason", "/seen/no-type", "/seen/early", "/seen/lf",
				"/good")},
		serve: func(x *exchange) {
			name, isOdd := strings.CutPrefix(x.path, "/odd/")
			switch {
			case x.path == "/":
				x.page(linked("odd heads", append(hrefs, "/good")...))
			case isOdd:
				x.raw(odd[name])
				x.over = true
			case x.path == "/good", strings.HasPrefix(x.path, "/seen/"):
				x.page(linked(x.path))
			default:
				x.missing()
			}
		},
	}
}
