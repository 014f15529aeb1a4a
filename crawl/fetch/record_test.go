package fetch

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

// TestRequestHeadAsSent compares Result.RequestHead with the bytes that a server received.
func TestRequestHeadAsSent(t *testing.T) {
	sent := make(chan string, 1)
	s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
		for {
			var seen bytes.Buffer
			if !s.readRequest(bufio.NewReaderSize(io.TeeReader(oneByte{r}, &seen), 16)) {
				return
			}
			sent <- seen.String()
			io.WriteString(c, okAnswer)
		}
	})
	f := newFetcher(t, nil)
	for _, path := range []string{"/", "/a|b?c={d}", "/%zz", "//x//y?", "/a/./b/../c;d=1"} {
		for _, cond := range []string{"", `W/"tag, with \ things"`} {
			res := f.Do(t.Context(), Request{
				URL: store.URL("http://" + s.at.String() + path), Addr: s.at.Addr(), KeepRaw: true,
				IfNoneMatch: cond, IfModifiedSince: cond,
			})
			if want := <-sent; res.Outcome != store.OutcomeOK || string(res.RequestHead) != want {
				t.Errorf("%v %v: RequestHead %q, want %q",
					res.Outcome, res.Err, res.RequestHead, want)
			}
		}
	}
}

// oneByte prevents a reader from reading ahead.
type oneByte struct{ r io.Reader }

func (r oneByte) Read(p []byte) (int, error) { return r.r.Read(p[:min(1, len(p))]) }

// TestKeepRaw tests Request.KeepRaw for responses of all kinds.
func TestKeepRaw(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	tests := []struct {
		name, sent string
		head, raw  string
		cut        string
		proto      string
	}{
		{
			"plain",
			"HTTP/1.1 200 Fine by me\r\nb: 2\r\nA: 1\r\na:  3 \r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 Fine by me\r\nA: 1\r\nA: 3\r\nB: 2\r\nContent-Length: 2\r\n\r\n", "ok",
			"", "http/1.1",
		},
		{
			"chunked, with trailer",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\no\r\n1;" +
				"ext\r\nk\r\n0\r\nX: y\r\n\r\n",
			"HTTP/1.1 200 OK\r\n\r\n", "ok", "", "http/1.1",
		},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", "HTTP/1.0 200 OK\r\n\r\n", "ok", "", "http/1.0"},
		{
			"interim",
			"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: " +
				"0\r\n\r\n",
			"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", "", "http/1.1",
		},
		{
			"folded", "HTTP/1.1 200 OK\r\nA: one\r\n two\r\n\tthree\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nA: one two three\r\nContent-Length: 2\r\n\r\n", "ok", "",
			"http/1.1",
		},
		{
			"no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", "ok", "", "http/1.1",
		},
		{
			"not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno",
			"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n", "no", "", "http/1.1",
		},
		{
			"long not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n" + big,
			"HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n", big[:drainLimit], "length",
			"http/1.1",
		},
		{
			"not found and broken off", "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nno",
			"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\n", "no", "disconnect", "http/1.1",
		},
		{
			"same length twice",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
			"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "ok", "", "http/1.1",
		},
		{
			"control characters", "HTTP/1.1 200 O\rK\x00\r\nA: b\tc\r\n\r\nok",
			"HTTP/1.1 200 O K \r\nA: b\tc\r\n\r\n", "ok", "", "http/1.1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
				if s.readRequest(r) {
					io.WriteString(c, tt.sent)
				}
			})
			res := newFetcher(t, nil).Do(t.Context(),
				Request{URL: store.URL("http://" + s.at.String() + "/"), Addr: s.at.Addr(),
					KeepRaw: true})
			if res.Err != nil || string(res.ResponseHead) != tt.head || string(res.Raw) != tt.raw ||
				res.RawCut != tt.cut {
				t.Errorf("%v %q, %d bytes, cut %q, %v", res.Outcome, res.ResponseHead, len(res.Raw),
					res.RawCut, res.Err)
			}
			if res.Proto != tt.proto || res.Remote != s.at || res.TLS != nil {
				t.Errorf("%q %v %v, want %q %v", res.Proto, res.Remote, res.TLS, tt.proto, s.at)
			}
			if back, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(res.ResponseHead)),
				nil); err != nil || back.StatusCode != res.Status {
				t.Errorf("does not read back: %v", err)
			}
		})
	}
	// Without KeepRaw, nothing is kept.
	s := newSite(t, "127.7.5.1", "http", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "ok")
	})
	if res := s.get(newFetcher(t, nil), "/"); res.RequestHead != nil || res.ResponseHead != nil ||
		res.Raw != nil {
		t.Errorf("kept unasked: %+v", res)
	}
}

// TestConditional tests what the server receives, and the outcome of a 304.
func TestConditional(t *testing.T) {
	var got http.Header
	s := newSite(t, "127.7.5.2", "http", func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("ETag", `"a"`)
		if r.Header.Get("If-None-Match") == `"a"` || r.URL.Path == "/304" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, "new")
	})
	f := newFetcher(t, nil)
	date := time.Unix(1e9, 0).UTC().Format(http.TimeFormat)
	tests := []struct {
		path, tag, since   string
		outcome            store.Outcome
		sentTag, sentSince string
	}{
		{"/", "", "", store.OutcomeOK, "", ""},
		{"/", `"a"`, date, store.OutcomeNotModified, `"a"`, date},
		{"/", `"b"`, "", store.OutcomeOK, `"b"`, ""},
		{"/304", "", date, store.OutcomeNotModified, "", date},
		{"/304", "", "", store.OutcomeHTTPError, "", ""},
		{"/", " \"a\"\t", "", store.OutcomeNotModified, `"a"`, ""},
		{"/", "\"a\"\r\nHost: evil", "", store.OutcomeOK, "", ""},
		{"/", "\"a\"\nX: y", "x\x00y", store.OutcomeOK, "", ""},
		{"/304", "\"a\"\r\n\r\n", "\r", store.OutcomeHTTPError, "", ""},
		{"/", strings.Repeat("x", maxValidator+1), "", store.OutcomeOK, "", ""},
	}
	for _, tt := range tests {
		res := f.Do(t.Context(), Request{
			URL: s.url("http", "site.example", tt.path), Addr: s.addr, IfNoneMatch: tt.tag,
			IfModifiedSince: tt.since,
		})
		if res.Outcome != tt.outcome || res.Err != nil || !res.Outcome.Answered() {
			t.Errorf("%s %q: %v %v", tt.path, tt.tag, res.Outcome, res.Err)
		}
		if a, b := got.Get("If-None-Match"), got.Get("If-Modified-Since"); a != tt.sentTag ||
			b != tt.sentSince {
			t.Errorf("%q %q sent as %q %q, want %q %q",
				tt.tag, tt.since, a, b, tt.sentTag, tt.sentSince)
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// FuzzHeads verifies that no response can add lines to a head.
func FuzzHeads(f *testing.F) {
	f.Add("Fine", "X-A", "b\r\nc: d")
	f.Add("\r\n\r\n", "X", "\x00\x7f")
	f.Fuzz(func(t *testing.T, reason, name, value string) {
		if name == "" {
			return // net/http lets none through
		}
		head := string(responseHead(&http.Response{
			ProtoMajor: 1, ProtoMinor: 1, Status: "200 " + reason,
			Header: http.Header{name: {value}},
		}))
		if n := strings.Count(head, "\r"); n != 3 || strings.Count(head, "\n") != 3 ||
			!strings.HasSuffix(head, "\r\n\r\n") {
			t.Errorf("head %q, want three lines", head)
		}
		if c := validator(value); len(c) > maxValidator || strings.ContainsAny(c, "\r\n\x00") {
			t.Errorf("condition %q", c)
		}
	})
}

func FuzzCodings(f *testing.F) {
	f.Add("gzip, br")
	f.Add(",, identity,none,")
	f.Fuzz(func(t *testing.T, s string) {
		cs, err := codingsOf(http.Header{"Content-Encoding": {s}})
		if len(cs) > maxCodings || err != nil && cs != nil {
			t.Errorf("codingsOf(%q) = %v, %v", s, cs, err)
		}
		for i := range 40 { // order of fields is the order of the list
			if i > len(s) {
				break
			}
			again, _ := codingsOf(http.Header{"Content-Encoding": {s[:i], s[i:]}})
			if strings.HasSuffix(s[:i], ",") && !slices.Equal(again, cs) {
				t.Errorf("%q divided at %d: %v, not %v", s, i, again, cs)
			}
		}
	})
}
