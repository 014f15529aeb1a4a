package fetch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"peerd/store"
)

// h2Site is a server that reads and writes single frames of HTTP/2.
type h2Site struct {
	at       netip.AddrPort
	roots    *x509.CertPool
	requests atomic.Int64 // HEADERS frames seen
}

// h2Stream is a request that the script responds to.
type h2Stream struct {
	*http2.Framer
	conn net.Conn
	id   uint32
}

// head writes the head of a response; fields alternate between names and values.
func (s h2Stream) head(end bool, fields ...string) error {
	var buf bytes.Buffer
	enc := hpack.NewEncoder(&buf)
	for i := 0; i < len(fields); i += 2 {
		enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return s.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: buf.Bytes(),
		EndHeaders: true, EndStream: end})
}

// newH2Site runs script for each request.
func newH2Site(t *testing.T, script func(s h2Stream)) *h2Site {
	t.Helper()
	cert := certificate(t, "site.example", "Test CA", time.Now().Add(time.Hour))
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.7.8.1:0", &tls.Config{Certificates: []tls.Certificate{cert},
		NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	s := &h2Site{at: netip.MustParseAddrPort(l.Addr().String()), roots: x509.NewCertPool()}
	s.roots.AddCert(leaf)
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				s.serve(c, script)
			})
		}
	})
	return s
}

func (s *h2Site) serve(c net.Conn, script func(s h2Stream)) {
	if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	fr := http2.NewFramer(c, c)
	fr.WriteSettings()
	for {
		frame, err := fr.ReadFrame()
		if err != nil {
			return
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			s.requests.Add(1)
			script(h2Stream{fr, c, h.StreamID})
		}
	}
}

// TestHostileHTTP2 is TestHostileServers for HTTP/2. The request must never be sent twice.
func TestHostileHTTP2(t *testing.T) {
	t.Parallel()
	for _, tt := range h2Tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newH2Site(t, tt.script)
			f := newFetcher(t, func(c *Config) {
				tight(tt.want == store.OutcomeTimeout, tt.status)(c)
				c.TLS = &tls.Config{RootCAs: s.roots}
			})
			res := f.Do(t.Context(),
				Request{URL: store.URL("https://site.example:" +
					s.at.String()[len("127.7.8.1:"):] + "/"), Addr: s.at.Addr(), KeepRaw: true})
			if res.Outcome != tt.want || res.Status != tt.status ||
				string(res.Body) != tt.body {
				t.Errorf("%v %d %.20q %v, want %v %d", res.Outcome, res.Status, res.Body,
					res.Err, tt.want, tt.status)
			}
			if res.Outcome.Answered() != (res.Err == nil) {
				t.Errorf("outcome %v with error %v, want an error if it is not a response",
					res.Outcome, res.Err)
			}
			if tt.status == 200 && !strings.HasPrefix(string(res.ResponseHead),
				"HTTP/1.1 200 OK\r\n") {
				t.Errorf("head %.60q", res.ResponseHead)
			}
			n := s.requests.Load() // a busy machine may not connect before the timeout
			if n > 1 || n == 0 && tt.want != store.OutcomeTimeout {
				t.Errorf("%d requests sent, want 1", n)
			}
		})
	}
}

var h2Tests = []struct {
	name   string
	script func(s h2Stream)
	want   store.Outcome
	status int
	body   string
}{
	{"fine", func(s h2Stream) {
		s.head(false, ":status", "200", "content-length", "2")
		s.WriteData(s.id, true, []byte("ok"))
	}, store.OutcomeOK, 200, "ok"},
	{"trailers", func(s h2Stream) {
		s.head(false, ":status", "200")
		s.WriteData(s.id, false, []byte("ok"))
		s.head(true, "content-type", "x")
	}, store.OutcomeOK, 200, "ok"},
	{"refused stream", func(s h2Stream) {
		s.WriteRSTStream(s.id, http2.ErrCodeRefusedStream)
	}, store.OutcomeReset, 0, ""},
	{"HTTP/1.1 required", func(s h2Stream) {
		s.WriteRSTStream(s.id, http2.ErrCodeHTTP11Required)
	}, store.OutcomeReset, 0, ""},
	{"goes away before it", func(s h2Stream) {
		s.WriteGoAway(0, http2.ErrCodeNo, nil)
		s.conn.Close()
	}, store.OutcomeReset, 0, ""},
	{"goes away after it", func(s h2Stream) {
		s.WriteGoAway(s.id, http2.ErrCodeNo, nil)
		s.head(true, ":status", "204")
	}, store.OutcomeOK, 204, ""},
	{"closes", func(s h2Stream) { s.conn.Close() }, store.OutcomeReset, 0, ""},
	{"resets in mid-body", func(s h2Stream) {
		s.head(false, ":status", "200")
		s.WriteData(s.id, false, []byte("half"))
		s.WriteRSTStream(s.id, http2.ErrCodeInternal)
	}, store.OutcomeReset, 200, ""},
	{"closes in mid-body", func(s h2Stream) {
		s.head(false, ":status", "200")
		s.WriteData(s.id, false, []byte("half"))
		s.conn.Close()
	}, store.OutcomeReset, 200, ""},
	{"less than its length", func(s h2Stream) {
		s.head(false, ":status", "200", "content-length", "9")
		s.WriteData(s.id, true, []byte("half"))
	}, store.OutcomeReset, 200, ""},
	{"more than its length", func(s h2Stream) {
		s.head(false, ":status", "200", "content-length", "2")
		s.WriteData(s.id, true, []byte("whole"))
	}, store.OutcomeReset, 200, ""},
	{"no status", func(s h2Stream) { s.head(true, "a", "b") }, store.OutcomeReset, 0, ""},
	{"interim answers without end", func(s h2Stream) {
		for range 100_000 {
			if s.head(false, ":status", "103", "link", "</x>") != nil {
				return
			}
		}
	}, store.OutcomeReset, 0, ""},
	{"head of many megabytes", func(s h2Stream) {
		fields := []string{":status", "200"}
		for range 5000 {
			// one byte each, from the second on
			fields = append(fields, "x", strings.Repeat("v", 3000))
		}
		s.head(true, fields...)
	}, store.OutcomeReset, 0, ""},
	{"never answers", func(h2Stream) {}, store.OutcomeTimeout, 0, ""},
	{"empty frames without end", func(s h2Stream) {
		s.head(false, ":status", "200")
		for s.WriteData(s.id, false, nil) == nil {
			time.Sleep(time.Millisecond) // spares the processor during the window
		}
	}, store.OutcomeTimeout, 200, ""},
	{"pings without end", func(s h2Stream) {
		go io.Copy(io.Discard, s.conn)
		for s.WritePing(false, [8]byte{1}) == nil {
			time.Sleep(time.Millisecond)
		}
	}, store.OutcomeTimeout, 0, ""},
	{"body without end", func(s h2Stream) {
		go io.Copy(io.Discard, s.conn)
		s.head(false, ":status", "200")
		for s.WriteData(s.id, false, make([]byte, 4096)) == nil {
		}
	}, store.OutcomeTooLarge, 200, string(make([]byte, 64<<10))},
}
