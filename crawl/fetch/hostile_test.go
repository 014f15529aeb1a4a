package fetch

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// tight sets low limits, and short timeouts if the server waits: after the head of the response,
// or before it if status is 0.
func tight(waits bool, status int) func(*Config) {
	return func(c *Config) {
		c.MaxHead = 16 << 10
		c.MaxBody = 64 << 10
		switch {
		case waits && status == 0:
			c.HeadTimeout = time.Second
			c.TotalTimeout = 2 * time.Second
		case waits:
			c.RateWindow = time.Second
			c.DrainTimeout = 300 * time.Millisecond
		}
	}
}

// pour writes chunk to c until a write fails or the limit is reached, and returns the number of
// bytes written.
func pour(c io.Writer, chunk string, limit int64) (n int64) {
	for n < limit {
		m, err := io.WriteString(c, chunk)
		n += int64(m)
		if err != nil {
			return n
		}
	}
	return n
}

// drip writes text byte by byte, until a write fails.
func drip(c io.Writer, text string, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return
		}
		<-tick.C
	}
}

func TestHostileServers(t *testing.T) {
	t.Parallel()
	bomb := packers["br"](make([]byte, 30<<20)) // the race detector makes this slow
	tests := []struct {
		name   string
		script func(c net.Conn)
		want   store.Outcome
		status int
	}{
		{"closes at once", func(net.Conn) {}, store.OutcomeReset, 0},
		{"resets at once", func(c net.Conn) {
			c.(*net.TCPConn).SetLinger(0)
		}, store.OutcomeReset, 0},
		{"never answers", func(c net.Conn) { io.Copy(io.Discard, c) }, store.OutcomeTimeout, 0},
		{"rubbish", func(c net.Conn) {
			io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n")
		}, store.OutcomeProtocol, 0},
		{"binary", func(c net.Conn) {
			c.Write(bytes.Repeat([]byte{0, 255, '\n'}, 99))
		}, store.OutcomeProtocol, 0},
		{"half a status line", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 20")
		}, store.OutcomeReset, 0},
		{"half a head", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Ty")
		}, store.OutcomeReset, 0},
		{"head of 10 MB", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nX: ")
			if n := pour(c, strings.Repeat("x", 64<<10), 10<<20); n > 8<<20 {
				t.Errorf("the fetcher took %d bytes of head", n)
			}
		}, store.OutcomeProtocol, 0},
		{"head without end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			pour(c, strings.Repeat("A: b\r\n", 10_000), 10<<20)
		}, store.OutcomeProtocol, 0},
		{"interim answers without end", func(c net.Conn) {
			pour(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000), 10<<20)
		}, store.OutcomeProtocol, 0},
		{"switches protocols", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			io.Copy(io.Discard, c)
		}, store.OutcomeProtocol, 101},
		{"dripping head", func(c net.Conn) {
			drip(c, okAnswer, 100*time.Millisecond)
		}, store.OutcomeTimeout, 0},
		{"dripping body", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
			drip(c, strings.Repeat("x", 1000), 50*time.Millisecond)
		}, store.OutcomeTimeout, 200},
		{"dripping body not taken", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 1000\r\n\r\n")
			drip(c, strings.Repeat("x", 1000), 50*time.Millisecond)
		}, store.OutcomeHTTPError, 404},
		{"dripping gzip", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
			drip(c, string(zip(html(9000))), 50*time.Millisecond)
		}, store.OutcomeTimeout, 200},
		{"body without end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			if n := pour(c, strings.Repeat("x", 64<<10), 100<<20); n > 32<<20 {
				t.Errorf("the fetcher took %d bytes of body", n)
			}
		}, store.OutcomeTooLarge, 200},
		{"closes in mid-body", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
		}, store.OutcomeReset, 200},
		{"resets in mid-body", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
			c.(*net.TCPConn).SetLinger(0)
		}, store.OutcomeReset, 0},
		{"closes in mid-gzip", func(c net.Conn) {
			z := zip(html(9000))
			fmt.Fprintf(c,
				"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", len(z),
				z[:1000])
		}, store.OutcomeReset, 200},
		{"closes in mid-chunk", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\nhalf")
		}, store.OutcomeReset, 200},
		{"bad chunk", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhalf")
		}, store.OutcomeProtocol, 200},
		{"two lengths", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok")
		}, store.OutcomeProtocol, 0},
		{"negative length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nok")
		}, store.OutcomeProtocol, 0},
		{"huge length", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9223372036854775807\r\n\r\nok")
		}, store.OutcomeReset, 200},
		{"100 without end", func(c net.Conn) {
			if n := pour(c, strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 1000),
				10<<20); n > 8<<20 {
				t.Errorf("the fetcher took %d bytes of interim answers", n)
			}
		}, store.OutcomeProtocol, 0},
		{"dripping interim answers", func(c net.Conn) {
			drip(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000), 5*time.Millisecond)
		}, store.OutcomeTimeout, 0},
		{"lines instead of a status", func(c net.Conn) {
			pour(c, "\r\n", 1<<20)
		}, store.OutcomeProtocol, 0},
		{"trailer without end", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n")
			if n := pour(c, "A: b\r\n", 10<<20); n > 8<<20 {
				t.Errorf("the fetcher took %d bytes of trailer", n)
			}
		}, store.OutcomeProtocol, 200},
		{"chunk extension without end", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;")
			pour(c, strings.Repeat("x", 1000), 10<<20)
		}, store.OutcomeProtocol, 200},
		{"chunks of one byte with long extensions", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			pour(c, "1;"+strings.Repeat("x", 1000)+"\r\na\r\n", 50<<20)
		}, store.OutcomeProtocol, 200},
		{"huge chunk", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok")
		}, store.OutcomeProtocol, 200},
		{"chunk and no end of line", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n")
		}, store.OutcomeProtocol, 200},
		{"unknown transfer coding", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n")
		}, store.OutcomeProtocol, 0},
		{"bomb", func(c net.Conn) {
			io.WriteString(c,
				"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nConnection: close\r\n\r\n")
			c.Write(bomb)
		}, store.OutcomeTooLarge, 200},
		{"space before colon", func(c net.Conn) {
			// No length then: the body ends with the connection.
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nokay")
		}, store.OutcomeOK, 200},
		{"long Location", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 301 Moved\r\nConnection: close\r\nLocation: /"+
				strings.Repeat("x", maxLocation)+"\r\n\r\n")
		}, store.OutcomeHTTPError, 301},
		{"HTTP/1.0", func(c net.Conn) {
			io.WriteString(c, "HTTP/1.0 200 OK\r\n\r\nok")
		}, store.OutcomeOK, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
				if s.readRequest(r) {
					tt.script(c)
				}
			})
			waits := tt.want == store.OutcomeTimeout || strings.HasPrefix(tt.name, "dripping")
			f := newFetcher(t, tight(waits, tt.status))
			res := s.get(f)
			if res.Outcome != tt.want || tt.status != 0 && res.Status != tt.status {
				t.Errorf("%v %d %v, want %v %d", res.Outcome, res.Status, res.Err, tt.want,
					tt.status)
			}
			if res.Outcome != store.OutcomeOK && res.Outcome != store.OutcomeTooLarge &&
				res.Body != nil {
				t.Errorf("kept a body of %d bytes", len(res.Body))
			}
			if res.Outcome.Answered() != (res.Err == nil) {
				t.Errorf("outcome %v with error %v, want an error if it is not a response",
					res.Outcome, res.Err)
			}
			n := s.requests.Load() // a busy machine may not connect before the timeout
			if n > 1 || n == 0 && tt.want != store.OutcomeTimeout {
				t.Errorf("%d requests sent, want 1", n)
			}
			if n := idle(f); n != 0 {
				t.Errorf("kept the connection")
			}
		})
	}
}
