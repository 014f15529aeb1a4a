package compare

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A hit is one line of the server's log. The format is nginx's
// '$msec\t$host\t$request_method\t$request_uri\t$status\t$body_bytes_sent\t
// $sent_http_content_type\t$connection\t$http_user_agent' in one line.
type hit struct {
	page  string // its name if it is a page (GET, 200, text/html), else ""
	agent string
}

// logFields is the number of fields of a line.
const logFields = 9

var errLogLine = errors.New("not a line of the access log: want 9 fields separated by tabs")

func parseHit(line string) (hit, error) {
	f := strings.Split(line, "\t")
	if len(f) != logFields {
		return hit{}, errLogLine
	}
	h := hit{agent: f[8]}
	kind, _, _ := strings.Cut(f[6], ";")
	if f[2] == "GET" && f[4] == "200" && strings.TrimSpace(kind) == "text/html" {
		h.page = strings.ToLower(f[1]) + pathName(f[3])
	}
	return h, nil
}

// pathName returns a normalised path and query, which clients write in several ways: it decodes
// escapes of characters that need none, writes the other escapes in upper case (RFC 3986,
// section 6.2.2), and drops an empty query.
func pathName(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		hi, lo := -1, -1
		if s[i] == '%' && i+2 < len(s) {
			hi, lo = digit(s[i+1]), digit(s[i+2])
		}
		if hi < 0 || lo < 0 {
			b.WriteByte(s[i])
			continue
		}
		if c := byte(hi<<4 | lo); plain(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		i += 2
	}
	return strings.TrimSuffix(b.String(), "?")
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// plain reports whether a character may be in a path unescaped: the unreserved characters and
// the sub-delimiters, which only some clients escape.
func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		strings.IndexByte("-._~!$'()*,:;@[]", c) >= 0
}

// accessLog is the log file of a server that is another process.
type accessLog struct{ path string }

// end returns the offset at which the next line will begin.
func (l accessLog) end() (int64, error) {
	st, err := os.Stat(l.path)
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// settle waits until the log stops growing: servers write it with a delay of up to a second.
func (l accessLog) settle(ctx context.Context) error {
	last, still := int64(-1), 0
	for range 100 {
		n, err := l.end()
		if err != nil {
			return err
		}
		if still++; n != last {
			last, still = n, 0
		}
		if still > 12 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil // another client keeps sending requests
}

// each calls fn for every line from offset on.
func (l accessLog) each(offset int64, fn func(hit)) error {
	f, err := os.Open(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	sc := bufio.NewScanner(f)
	sc.Buffer(make([]byte, 64<<10), 1<<20)
	for sc.Scan() {
		h, err := parseHit(sc.Text())
		if err != nil {
			return fmt.Errorf("%s: %w", l.path, err)
		}
		fn(h)
	}
	return sc.Err()
}

// census assigns numbers to all pages that any run has fetched.
type census struct {
	number map[string]int
	names  []string
}

// visits is the set of pages that one run fetched.
type visits struct {
	pages    int // different pages
	twice    int // fetches of a page beyond its first
	requests int
	seen     []bool // by number in the census
}

// count reads the lines of one user agent from offset on: other clients may use the server at
// the same time.
func (c *census) count(l accessLog, offset int64, agent string) (visits, error) {
	var v visits
	err := l.each(offset, func(h hit) {
		if !strings.HasPrefix(h.agent, agent) {
			return
		}
		v.requests++
		if h.page == "" {
			return
		}
		n, ok := c.number[h.page]
		if !ok {
			n = len(c.names)
			c.number[strings.Clone(h.page)] = n
			c.names = append(c.names, strings.Clone(h.page))
		}
		for len(v.seen) <= n {
			v.seen = append(v.seen, false)
		}
		if v.seen[n] {
			v.twice++
		} else {
			v.seen[n] = true
			v.pages++
		}
	})
	return v, err
}

// missing returns a page that another run has fetched and this one has not, or "".
func (c *census) missing(v visits) string {
	for n, name := range c.names {
		if n >= len(v.seen) || !v.seen[n] {
			return name
		}
	}
	return ""
}
