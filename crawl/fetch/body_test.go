package fetch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
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

// html returns n bytes that gzip compresses about as well as a page.
func html(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "<li><a href=\"/page/%d\">%x</a></li>\n", i, i*2654435761)
	}
	return b.Bytes()[:n]
}

// packers encode data like servers.
var packers = map[string]func([]byte) []byte{
	"gzip": zip,
	"deflate": func(data []byte) []byte {
		var buf bytes.Buffer
		w := zlib.NewWriter(&buf)
		w.Write(data)
		w.Close()
		return buf.Bytes()
	},
	"bare": func(data []byte) []byte {
		var buf bytes.Buffer
		w, _ := flate.NewWriter(&buf, 6)
		w.Write(data)
		w.Close()
		return buf.Bytes()
	},
	"br": func(data []byte) []byte {
		var buf bytes.Buffer
		w := brotli.NewWriterLevel(&buf, 5)
		w.Write(data)
		w.Close()
		return buf.Bytes()
	},
	"zstd": func(data []byte) []byte { return zstdWindow(data, 1<<20) },
}

// zstdWindow returns the zstd of data, encoded with a window size.
func zstdWindow(data []byte, window int) []byte {
	var buf bytes.Buffer
	w, _ := zstd.NewWriter(&buf, zstd.WithWindowSize(window), zstd.WithEncoderConcurrency(1))
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

// bodyTest is a response and the expected result.
type bodyTest struct {
	name    string
	coding  string
	sent    []byte
	limit   int64
	outcome store.Outcome
	want    []byte
	err     error
	kept    bool
}

func bodyTests() []bodyTest {
	page := html(20_000)
	bomb := zip(make([]byte, 4<<20))
	tests := []bodyTest{
		{name: "empty", outcome: store.OutcomeOK, kept: true},
		{name: "plain", sent: page, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "identity", coding: "identity", sent: page, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "none", coding: "none, UTF-8,", sent: page, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "just fits", sent: page, limit: 20_000, outcome: store.OutcomeOK, want: page, kept: true},
		{name: "one too many", sent: page, limit: 19_999, outcome: store.OutcomeTooLarge, want: page[:19_999]},
		{name: "cut early", sent: page, limit: 1, outcome: store.OutcomeTooLarge, want: page[:1]},
		{name: "GZip", coding: "GZip", sent: zip(page), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "x-gzip", coding: "x-gzip", sent: zip(page), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "two members", coding: "gzip", sent: append(zip(page[:9]), zip(page[9:])...),
			outcome: store.OutcomeOK, want: page, kept: true},
		{name: "padded gzip", coding: "gzip", sent: append(zip(page), make([]byte, 9000)...),
			outcome: store.OutcomeOK, want: page, kept: true},
		{name: "padding without end", coding: "gzip",
			sent: append(zip(page), make([]byte, 99_000)...), limit: 30_000,
			outcome: store.OutcomeTooLarge, want: page},
		{name: "two frames", coding: "zstd", sent: append(zstdWindow(page[:9], 1<<20),
			zstdWindow(page[9:], 1<<20)...), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "empty members without end", coding: "gzip", sent: bytes.Repeat(zip(nil), 10_000),
			limit: 1000, outcome: store.OutcomeTooLarge},
		{name: "empty members within", coding: "gzip, gzip",
			sent:    zip(append(bytes.Repeat(zip(nil), 500), zip(zip(page))...)),
			outcome: store.OutcomeOK, want: zip(page), kept: true},
		{name: "bomb", coding: "gzip", sent: bomb, outcome: store.OutcomeDecoding, err: ErrBomb},
		{name: "small bomb", coding: "gzip", sent: zip(make([]byte, 1<<20)),
			outcome: store.OutcomeOK, want: make([]byte, 1<<20), kept: true},
		{name: "bomb cut by size first", coding: "gzip", sent: bomb, limit: 100_000,
			outcome: store.OutcomeTooLarge, want: make([]byte, 100_000)},
		{name: "bomb in gzip", coding: "gzip, gzip", sent: zip(bomb), outcome: store.OutcomeDecoding, err: ErrBomb},
		{name: "bomb within", coding: "gzip, br",
			sent: packers["br"](bytes.Repeat(zip(nil), 400_000)), outcome: store.OutcomeDecoding,
			err: ErrBomb},
		{name: "large within", coding: "gzip, br",
			sent: packers["br"](bytes.Repeat(zip(nil), 10_000)), limit: 9999,
			outcome: store.OutcomeTooLarge},
		{name: "wrong checksum", coding: "gzip", sent: flipped(zip(page), -5), outcome: store.OutcomeDecoding, err: errBrokenCoding},
		{name: "no gzip", coding: "gzip", sent: page, outcome: store.OutcomeDecoding, err: errBrokenCoding},
		{name: "window too wide", coding: "zstd", sent: zstdWindow(bytes.Repeat(page, 2000),
			32<<20), outcome: store.OutcomeDecoding, err: errBrokenCoding},
		{name: "unknown", coding: "compress", sent: page, outcome: store.OutcomeDecoding, err: ErrEncoding},
		{name: "not last", coding: "sdch,gzip", sent: page, outcome: store.OutcomeDecoding, err: ErrEncoding},
		{name: "gzip, br", coding: "gzip, br", sent: packers["br"](zip(page)), outcome: store.OutcomeOK, want: page, kept: true},
		{name: "br, gzip", coding: "br,identity ,gzip", sent: zip(packers["br"](page)), outcome: store.OutcomeOK, want: page, kept: true},
		{
			name: "thrice", coding: "gzip" + strings.Repeat(", gzip", 2),
			sent: zip(zip(zip(page))), outcome: store.OutcomeDecoding, err: ErrEncoding,
		},
	}
	for _, name := range []string{"gzip", "deflate", "bare", "br", "zstd"} {
		coding, pack := name, packers[name]
		if name == "bare" {
			coding = "deflate"
		}
		tests = append(tests, []bodyTest{
			{name: name, coding: coding, sent: pack(page), outcome: store.OutcomeOK, want: page, kept: true},
			{name: name + " of nothing", coding: coding, sent: pack(nil), outcome: store.OutcomeOK, kept: true},
			{name: "empty " + name, coding: coding, outcome: store.OutcomeOK, kept: true},
			{name: name + " just fits", coding: coding, sent: pack(page), limit: 20_000, outcome: store.OutcomeOK, want: page, kept: true},
			{name: name + " cut", coding: coding, sent: pack(page), limit: 19_999, outcome: store.OutcomeTooLarge, want: page[:19_999]},
			{name: name + " twice", coding: coding + "," + coding, sent: pack(pack(page)),
				outcome: store.OutcomeOK, want: page, kept: true},
			{name: name + " bomb", coding: coding, sent: pack(make([]byte, 7<<20)), outcome: store.OutcomeDecoding, err: ErrBomb},
			{name: "half a " + name, coding: coding, sent: pack(page)[:1000], outcome: store.OutcomeDecoding, err: errBrokenCoding},
			{name: "broken " + name, coding: coding, sent: flipped(pack(page), 100), outcome: store.OutcomeDecoding, err: errBrokenCoding},
		}...)
	}
	return tests
}

// flipped returns data with one byte changed; at counts from the end if negative.
func flipped(data []byte, at int) []byte {
	data = bytes.Clone(data)
	if at < 0 {
		at += len(data)
	}
	for i := range 20 { // enough to break even what has no checksum
		if at+i < len(data) {
			data[at+i] ^= 0xff
		}
	}
	return data
}

func TestBody(t *testing.T) {
	tests := bodyTests()
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
		current = &tests[i]
		t.Run(current.name, func(t *testing.T) { checkBody(t, f, s, current) })
	}
}

func checkBody(t *testing.T, f *Fetcher, s *site, tt *bodyTest) {
	req := Request{URL: s.url("http", "site.example", "/"), Addr: s.addr, MaxBody: tt.limit,
		KeepRaw: true}
	res := f.Do(t.Context(), req)
	defer res.Release()
	if res.Outcome != tt.outcome || !bytes.Equal(res.Body, tt.want) {
		t.Errorf("%v, %d bytes, %v; want %v, %d bytes", res.Outcome, len(res.Body), res.Err,
			tt.outcome, len(tt.want))
	}
	if (tt.err == nil) != (res.Err == nil) || !errors.Is(res.Err, tt.err) {
		t.Errorf("error %v, want %v", res.Err, tt.err)
	}
	if res.Bytes > int64(len(tt.sent)) || res.Outcome == store.OutcomeOK &&
		res.Bytes != int64(len(tt.sent)) {
		t.Errorf("%d bytes received of %d sent", res.Bytes, len(tt.sent))
	}
	if tt.limit > 0 && res.Bytes > tt.limit+1 {
		t.Errorf("read %d bytes with a limit of %d", res.Bytes, tt.limit)
	}
	if !bytes.HasPrefix(tt.sent, res.Raw) || res.Outcome == store.OutcomeOK &&
		len(res.Raw) != len(tt.sent) || res.Err != nil && res.Raw != nil {
		t.Errorf("raw body of %d bytes, sent %d", len(res.Raw), len(tt.sent))
	}
	if (res.RawCut != "") != (res.Outcome == store.OutcomeTooLarge) {
		t.Errorf("outcome %v with RawCut %q", res.Outcome, res.RawCut)
	}
	if len(res.Body) > 0 && (tt.coding == "" || tt.coding == "identity") &&
		&res.Raw[0] != &res.Body[0] {
		t.Error("Raw is a copy, want the same slice as Body")
	}
	// If the body was cut, it may or may not have been read to its end.
	kept := idle(f) == 1
	for i := 0; i < 4 && tt.kept && !kept; i++ {
		// net/http closes a connection if the request seems unwritten for 50 ms on a busy machine
		again := f.Do(t.Context(), req)
		again.Release()
		kept = idle(f) == 1
	}
	if kept != tt.kept && (!kept || res.Outcome != store.OutcomeTooLarge) {
		t.Errorf("connection kept = %v", kept)
	}
}

// TestDecodersAreReset verifies that a decoder is usable after invalid data.
func TestDecodersAreReset(t *testing.T) {
	for name, pack := range packers {
		coding := strings.Replace(name, "bare", "deflate", 1)
		good := pack([]byte("good"))
		for _, data := range [][]byte{[]byte("rubbish"), nil, good, pack(html(5000))[:100], good} {
			wire := &countingReader{r: bytes.NewReader(data)}
			b, err := readBody(responseTo(data, coding), wire,
				bodyOptions{limit: 1 << 20, hold: new(reservation)})
			if bytes.Equal(data, good) && (err != nil || string(b.data) != "good") {
				t.Errorf("%s: readBody() = %q, %v, want good", coding, b.data, err)
			}
		}
	}
}

// responseTo returns the head of a response with encoded data.
func responseTo(data []byte, coding string) *http.Response {
	return &http.Response{Header: http.Header{"Content-Encoding": {coding}},
		ContentLength: int64(len(data))}
}

// TestRelease verifies that memory is used by one fetch at a time.
func TestRelease(t *testing.T) {
	s := newSite(t, "127.7.3.2", "http", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", r.URL.RawQuery)
		w.Write(packers["br"](bytes.Repeat([]byte(r.URL.Path), 3000)))
	})
	f := newFetcher(t, nil)
	get := func(path string) Result {
		return f.Do(t.Context(), Request{URL: s.url("http", "site.example", path+"?br"),
			Addr: s.addr, KeepRaw: true})
	}
	first := get("/first")
	twin := first
	first.Release()
	first.Release()
	twin.Release()
	if first.Body != nil || first.Raw != nil {
		t.Error("Body or Raw is not nil after Release")
	}
	var held []Result
	for i := range 8 {
		held = append(held, get(fmt.Sprintf("/%d", i)))
	}
	for i, res := range held {
		path := fmt.Sprintf("/%d", i)
		if string(res.Body) != strings.Repeat(path, 3000) ||
			!bytes.Equal(res.Raw, packers["br"](res.Body)) {
			t.Errorf("%s was overwritten: %.20q", path, res.Body)
		}
	}
}

// TestCodingsDecoded verifies that encoded data is decoded, up to its first limit bytes.
func TestCodingsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.SliceOfN(rapid.Byte(), 0, 5000).Draw(t, "page")
		page = bytes.Repeat(page, rapid.IntRange(1, 20).Draw(t, "times"))
		limit := rapid.Int64Range(1, 120_000).Draw(t, "limit")
		sent, codings, longest := page, []string{}, len(page)
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"gzip", "deflate", "bare",
			"br", "zstd"}), 0, 2).Draw(t, "codings") {
			sent = packers[name](sent)
			longest = max(longest, len(sent)) // what is between two codings is limited, too
			codings = append(codings, strings.Replace(name, "bare", "deflate", 1))
		}
		src := io.Reader(bytes.NewReader(sent))
		if rapid.Bool().Draw(t, "drips") {
			src = iotest.OneByteReader(src)
		}
		b, err := readBody(responseTo(sent, strings.Join(codings, ", ")), &countingReader{r: src},
			bodyOptions{limit: limit, raw: true, hold: new(reservation)})
		if err != nil {
			t.Fatal(err)
		}
		if !b.cut && !bytes.Equal(b.data, page) || !bytes.HasPrefix(page, b.data) || b.cut &&
			int64(longest) <= limit {
			t.Fatalf("%d bytes, cut %v, of %d bytes with limit %d", len(b.data), b.cut, len(page),
				limit)
		}
	})
}

// TestReleaseConcurrently runs many fetches that borrow and return memory concurrently.
func TestReleaseConcurrently(t *testing.T) {
	s := newSite(t, "127.7.3.3", "http", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(zip(bytes.Repeat([]byte(r.URL.Path), 2000)))
	})
	f := newFetcher(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 25 {
				path := fmt.Sprintf("/%d/%d", i, j)
				res := f.Do(t.Context(), Request{URL: s.url("http", "site.example", path),
					Addr: s.addr, KeepRaw: true})
				if string(res.Body) != strings.Repeat(path, 2000) ||
					!bytes.Equal(res.Raw, zip(res.Body)) {
					t.Errorf("%s: %v %.40q", path, res.Outcome, res.Body)
				}
				res.Release()
			}
		})
	}
	wg.Wait()
}

// FuzzBody verifies the limits of the decoders for any data.
func FuzzBody(f *testing.F) {
	f.Add([]byte("plain"), "", uint16(3))
	for name, pack := range packers {
		coding := strings.Replace(name, "bare", "deflate", 1)
		f.Add(pack([]byte(strings.Repeat("a", 5000))), coding, uint16(1000))
		f.Add(pack(pack(html(500))), coding+","+coding, uint16(60000))
		f.Add(append(pack(html(50)), 0, 1, 2), coding, uint16(60000))
	}
	f.Add(bytes.Repeat(zip(nil), 50), "gzip", uint16(100))
	f.Add([]byte{0x1f, 0x8b}, "gzip", uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, coding string, limit uint16) {
		resp, max := responseTo(data, coding), int64(limit)+1
		wire := &countingReader{r: bytes.NewReader(data)}
		b, err := readBody(resp, wire,
			bodyOptions{limit: max, raw: true, hold: new(reservation)})
		if n := wire.n.Load(); int64(len(b.data)) > max || n > max+1 || int64(len(b.raw)) > max {
			t.Errorf("%d bytes from %d with a limit of %d", len(b.data), n, max)
		}
		if !bytes.HasPrefix(data, b.raw) || err == nil && !b.cut && !bytes.Equal(b.raw, data) {
			t.Errorf("raw %q of %q", b.raw, data)
		}
		if cs, e := codingsOf(resp.Header); e != nil && err == nil || len(cs) == 0 && err == nil &&
			!bytes.Equal(b.data, b.raw) {
			t.Errorf("decoded %q without a coding to %q", data, b.data)
		}
	})
}
