package hostile

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Bombs with a small number of chunks are complete and valid, and decode to exactly that
// many zeros.
func TestBombsDecode(t *testing.T) {
	const chunks = 4
	for name, bomb := range map[string]struct {
		send   func(*exchange)
		decode func(io.Reader) (io.Reader, error)
	}{
		"gzip": {func(x *exchange) { x.gzipBomb(chunks) },
			func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }},
		"brotli": {func(x *exchange) { x.brotliBomb(chunks) },
			func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }},
		"zstd": {func(x *exchange) { x.zstdBomb(chunks) }, func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		}},
	} {
		w := serve(t, "bomb-gzip")
		w.caseOf("bomb-gzip." + Domain).serve = bomb.send
		nc := ask(t, w, "bomb-gzip."+Domain+"/")
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := bomb.decode(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		n, zeros, err := countZeros(r)
		if err != nil || n != chunks*bombChunk || !zeros {
			t.Errorf("%s: %d bytes, all zero: %v, %v; want %d", name, n, zeros, err,
				chunks*bombChunk)
		}
		h := ended(t, w, 0)
		t.Logf("%s: %d bytes on the wire for %d MiB", name, h.Sent, n>>20)
	}
}

func countZeros(r io.Reader) (n int64, zeros bool, err error) {
	buf := make([]byte, 1<<20)
	zeros = true
	for {
		k, err := r.Read(buf)
		n += int64(k)
		zeros = zeros && bytes.Count(buf[:k], []byte{0}) == k
		if err == io.EOF {
			return n, zeros, nil
		}
		if err != nil {
			return n, zeros, err
		}
	}
}

func TestNested(t *testing.T) {
	var r io.Reader = strings.NewReader(nested(3))
	for range 3 {
		z, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		r = z
	}
	if b, err := io.ReadAll(r); err != nil || !strings.HasPrefix(string(b), "<a href=") {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
