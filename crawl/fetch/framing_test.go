package fetch

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"

	"peerd/store"
)

// TestFraming has servers that end their responses in various valid and invalid ways on a
// connection that might be reused. Data after the end must never be taken for the next response.
func TestFraming(t *testing.T) {
	const next = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nTRAP"
	tests := []struct {
		name, sent string
		outcome    store.Outcome
		body       string
		conns      int64 // for two fetches
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 1},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", store.OutcomeOK, "ok", 1},
		{"no body by length", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", store.OutcomeOK, "", 1},
		{"no body by chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", store.OutcomeOK, "", 1},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", store.OutcomeOK, "", 1},
		{"204 with length", "HTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", store.OutcomeOK, "", 1},
		{"205", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", store.OutcomeOK, "", 1},
		{"304", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", store.OutcomeHTTPError, "", 1},
		{"close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 2},
		{"Close among others", "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 2},
		{"close and trap", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + next, store.OutcomeOK, "ok", 2},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 2},
		{"HTTP/1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 1},
		{"more than its length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", store.OutcomeOK, "ok", 2},
		{"a second answer", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + next, store.OutcomeOK, "ok", 2},
		{"after chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + next, store.OutcomeOK, "ok", 2},
		{"204 with a body", "HTTP/1.1 204 No Content\r\n\r\n" + next, store.OutcomeOK, "", 2},
		{"304 with a body", "HTTP/1.1 304 Not Modified\r\n\r\n" + next, store.OutcomeHTTPError, "", 2},
		{"length and chunks",
			"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n" +
				"ok\r\n0\r\n\r\n", store.OutcomeOK, "ok", 1},
		{"lengths that agree", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", store.OutcomeOK, "ok", 1},
		{"trailer",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Type: " +
				"x\r\n\r\n", store.OutcomeOK, "ok", 1},
		{"folded length", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok", store.OutcomeOK, "ok", 1},
		{"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", store.OutcomeOK, "ok", 1},
		{"not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", store.OutcomeHTTPError, "", 1},
		{"not found, more", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno" + next, store.OutcomeHTTPError, "", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
				for s.readRequest(r) {
					io.WriteString(c, tt.sent)
				}
			})
			f := newFetcher(t, func(c *Config) { c.HeadTimeout = time.Minute })
			for range 2 {
				res := s.get(f)
				if res.Outcome != tt.outcome || string(res.Body) != tt.body || res.Err != nil {
					t.Errorf("%v %q %v, want %v %q",
						res.Outcome, res.Body, res.Err, tt.outcome, tt.body)
				}
				if res.Header.Get("Content-Type") != "" {
					t.Error("a trailer became a field of the head")
				}
				if tt.conns == 2 {
					await(f, reachedReader)
				}
			}
			if n, conns := s.requests.Load(), s.conns.Load(); n != 2 || conns != tt.conns {
				t.Errorf("%d requests on %d connections, want 2 on %d", n, conns, tt.conns)
			}
		})
	}
}
