package hostile

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one request, with methods to answer it. Only the goroutine of the
// connection uses it.
type exchange struct {
	web    *Web
	c      *Case // nil: no such host
	conn   net.Conn
	br     *bufio.Reader
	host   string // in lower case, without port
	target string // path and query as sent
	path   string
	query  string
	nth    int // requests for the same URL before this one
	head   bool

	status int
	sent   int64
	over   bool   // the connection ends with this answer
	failed bool   // a write failed: the client disconnected
	ended  string // how it ended, unless failed
}

// ending returns how the exchange ended.
func (x *exchange) ending() string {
	switch {
	case x.web.ctx.Err() != nil:
		return EndStopped
	case x.failed:
		return EndClient
	case x.ended != "":
		return x.ended
	}
	return EndDone
}

// writeTime limits one write: a client that reads nothing is treated as disconnected.
const writeTime = 30 * time.Second

// raw sends bytes as they are and reports whether the client is still connected.
func (x *exchange) raw(parts ...string) bool {
	for _, s := range parts {
		if x.failed {
			return false
		}
		_ = x.conn.SetWriteDeadline(time.Now().Add(writeTime))
		n, err := x.conn.Write([]byte(s))
		x.sent += int64(n)
		x.failed = err != nil
	}
	return !x.failed
}

// repeat sends s n times, in larger writes.
func (x *exchange) repeat(s string, n int) bool {
	some := max(1, 64<<10/len(s))
	for ; n > 0; n -= some {
		if !x.raw(strings.Repeat(s, min(n, some))) {
			return false
		}
	}
	return true
}

// answer sends a complete answer with the given header lines, each ended by CRLF.
func (x *exchange) answer(status int, header, body string) {
	x.status = status
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n", status,
		http.StatusText(status), header, len(body))
	if x.head {
		body = ""
	}
	x.raw(head + body)
}

const htmlType = "Content-Type: text/html; charset=utf-8\r\n"

// begin sends the head of a 200 text/html with the given further header lines;
// a body without length follows, and ends with the connection.
func (x *exchange) begin(header string) bool {
	x.status, x.over = http.StatusOK, true
	return x.raw("HTTP/1.1 200 OK\r\n" + htmlType + "Connection: close\r\n" + header + "\r\n")
}

// page sends a page in HTML.
func (x *exchange) page(body string) { x.answer(http.StatusOK, htmlType, body) }

// redirect sends a redirect.
func (x *exchange) redirect(status int, location string) {
	x.answer(status, "Location: "+location+"\r\n", "")
}

// missing sends a 404.
func (x *exchange) missing() { x.answer(http.StatusNotFound, htmlType, "<title>Not found</title>") }

// cut ends the connection within the answer.
func (x *exchange) cut() { x.over, x.ended = true, EndCut }

// reset ends the connection with an RST.
func (x *exchange) reset() {
	x.over, x.ended = true, EndReset
	if t, ok := x.conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
}

// pause waits and reports whether the client is still connected.
func (x *exchange) pause(d time.Duration) bool {
	_ = x.conn.SetReadDeadline(time.Now().Add(d))
	_, err := x.br.Peek(1)
	if ne := net.Error(nil); errors.As(err, &ne) && ne.Timeout() {
		return true
	}
	x.failed = true // the client disconnected, or sent data during the answer
	return false
}

// hang sends nothing until the client disconnects.
func (x *exchange) hang() {
	x.over = true
	for x.pause(time.Minute) {
	}
}

// drip sends text and then blanks, one byte per second.
func (x *exchange) drip(text string) {
	x.over = true
	for i := 0; ; i++ {
		b := " "
		if i < len(text) {
			b = text[i : i+1]
		}
		if !x.raw(b) || !x.pause(time.Second) {
			return
		}
	}
}

// url returns the URL of host/path, or of /path at this host.
func (x *exchange) url(s string) string {
	if strings.HasPrefix(s, "/") {
		s = x.host + s
	}
	return x.web.url(s)
}

// at returns a URL with a host in any notation.
func (x *exchange) at(host, path string) string {
	return "http://" + host + ":" + strconv.Itoa(x.web.port) + path
}

// number returns the decimal number at the end of the path, or 0.
func (x *exchange) number() int {
	n, _ := strconv.Atoi(x.path[strings.LastIndexByte(x.path, '/')+1:])
	return n
}
