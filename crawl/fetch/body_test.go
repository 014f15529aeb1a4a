package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"peerd/store"
)

// zip returns the gzip of data.
func zip(data []byte) []byte {
	var buf bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	zw.Write(data)
	zw.Close()
	return buf.Bytes()
}

// html returns n bytes that gzip about as well as a page does.
func html(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "<li><a href=\"/page/%d\">%x</a></li>\n", i, i*2654435761)
	}
	return b.Bytes()[:n]
}

func TestBody(t *testing.T) {
	page := html(20_000)
	bomb := zip(make([]byte, 4<<20))
	tests := []struct {
		name    string
		coding  string
		sent    []byte
		limit   int64
		outcome store.Outcome
		want    []byte
		err     error
		kept    bool
	}{
		{name: "empty", outcome: store.OutcomeOK, kept: true},
		{name: "plain", sent: page, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "identity", coding: "identity", sent: page, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "just fits", sent: page, limit: 20_000, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "one too many", sent: page, limit: 19_999, outcome: store.OutcomeTooLarge, want: page[:19_999]},
		{name: "cut early", sent: page, limit: 1, outcome: store.OutcomeTooLarge, want: page[:1]},
		{name: "gzip", coding: "gzip", sent: zip(page), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "GZip", coding: "GZip", sent: zip(page), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "x-gzip", coding: "x-gzip", sent: zip(page), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "two members", coding: "gzip", sent: append(zip(page[:9]), zip(page[9:])...), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "gzip of nothing", coding: "gzip", outcome: store.OutcomeOK, kept: true},
		{name: "gzip just fits", coding: "gzip", sent: zip(page), limit: 20_000, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "gzip cut", coding: "gzip", sent: zip(page), limit: 19_999, outcome: store.OutcomeTooLarge, want: page[:19_999]},
		{name: "empty members without end", coding: "gzip", sent: bytes.Repeat(zip(nil), 10_000), limit: 1000, outcome: store.OutcomeTooLarge},
		{name: "bomb", coding: "gzip", sent: bomb, outcome: store.OutcomeProtocol, err: ErrBomb},
		{name: "small bomb", coding: "gzip", sent: zip(make([]byte, 200<<10)), outcome: store.OutcomeOK, want: make([]byte, 200<<10), kept: true},
		{name: "bomb cut by size first", coding: "gzip", sent: bomb, limit: 100_000, outcome: store.OutcomeTooLarge, want: make([]byte, 100_000)},
		{name: "half a gzip", coding: "gzip", sent: zip(page)[:1000], outcome: store.OutcomeProtocol, err: errGzip},
		{name: "no gzip", coding: "gzip", sent: page, outcome: store.OutcomeProtocol, err: errGzip},
		{name: "brotli", coding: "br", sent: page, outcome: store.OutcomeProtocol, err: ErrEncoding},
		{name: "twice", coding: "gzip, gzip", sent: zip(zip(page)), outcome: store.OutcomeProtocol, err: ErrEncoding},
	}
	current := &tests[0]
	s := newSite(t, "127.7.3.1", "http", func(w http.ResponseWriter, _ *http.Request) {
		if current.coding != "" {
			w.Header().Set("Content-Encoding", current.coding)
		}
		w.Header().Set("Content-Type", "text/html")
		w.Write(current.sent)
	})
	f := newFetcher(t, nil)
	for i := range tests {
		tt := &tests[i]
		current = tt
		t.Run(tt.name, func(t *testing.T) {
			res := f.Do(t.Context(), Request{URL: s.url("http", "site.example", "/"), Addr: s.addr, MaxBody: tt.limit})
			if res.Outcome != tt.outcome || !bytes.Equal(res.Body, tt.want) {
				t.Errorf("%v, %d bytes, %v; want %v, %d bytes", res.Outcome, len(res.Body), res.Err, tt.outcome, len(tt.want))
			}
			if (tt.err == nil) != (res.Err == nil) || !errors.Is(res.Err, tt.err) {
				t.Errorf("error %v, want %v", res.Err, tt.err)
			}
			if res.Bytes > int64(len(tt.sent)) || res.Outcome == store.OutcomeOK && res.Bytes != int64(len(tt.sent)) {
				t.Errorf("%d bytes over the wire of %d sent", res.Bytes, len(tt.sent))
			}
			if tt.limit > 0 && res.Bytes > tt.limit+1 {
				t.Errorf("read %d bytes with a limit of %d", res.Bytes, tt.limit)
			}
			// Whether a cut body was read to its end by accident is open.
			if kept := idle(f) == 1; kept != tt.kept && !(kept && res.Outcome == store.OutcomeTooLarge) {
				t.Errorf("connection kept = %v", kept)
			}
		})
	}
}

// TestGzipReadersAreClean holds that a decoder that met rubbish is good again.
func TestGzipReadersAreClean(t *testing.T) {
	f := newFetcher(t, nil)
	for _, data := range [][]byte{[]byte("rubbish"), zip([]byte("good")), zip(html(5000))[:100], zip([]byte("good"))} {
		resp := &http.Response{
			Header: http.Header{"Content-Encoding": {"gzip"}}, ContentLength: -1,
			Body: nopCloser{bytes.NewReader(data)},
		}
		b, err := f.readBody(resp, 1<<20)
		if bytes.Equal(data, zip([]byte("good"))) && (err != nil || string(b.data) != "good") {
			t.Errorf("%q, %v", b.data, err)
		}
	}
}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// FuzzBody feeds the decoder anything: it must end, within its limits.
func FuzzBody(f *testing.F) {
	f.Add([]byte("plain"), false, uint16(3))
	f.Add(zip([]byte(strings.Repeat("a", 5000))), true, uint16(1000))
	f.Add(bytes.Repeat(zip(nil), 50), true, uint16(100))
	f.Add([]byte{0x1f, 0x8b}, true, uint16(0))
	fetcher := newFetcher(f, nil)
	f.Fuzz(func(t *testing.T, data []byte, gz bool, limit uint16) {
		resp := &http.Response{Header: http.Header{}, ContentLength: -1, Body: nopCloser{bytes.NewReader(data)}}
		if gz {
			resp.Header.Set("Content-Encoding", "gzip")
		}
		b, err := fetcher.readBody(resp, int64(limit)+1)
		if int64(len(b.data)) > int64(limit)+1 || b.wire > int64(limit)+2 {
			t.Errorf("%d bytes from %d with a limit of %d", len(b.data), b.wire, limit+1)
		}
		if err == nil && !b.cut && !gz && !bytes.Equal(b.data, data) {
			t.Errorf("%q became %q", data, b.data)
		}
	})
}
