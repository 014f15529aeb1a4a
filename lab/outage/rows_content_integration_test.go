//go:build integration

package outage

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"peerd/lab/emulate/faulty"
)

// endMark are the last bytes of a file.
const endMark = "the last bytes of this file"

// file answers with n bytes of a type ("" sends none): begin, bytes that do not compress, and
// endMark.
func file(kind, begin string, n int) http.HandlerFunc {
	body := sync.OnceValue(func() []byte {
		var seed [32]byte
		copy(seed[:], kind+begin)
		b := make([]byte, n)
		_, _ = rand.NewChaCha8(seed).Read(b) // never fails
		copy(b, begin)
		copy(b[n-len(endMark):], endMark)
		return b
	})
	return serveFile(kind, body)
}

// htmlFile answers with n bytes of HTML.
func htmlFile(title string, n int) http.HandlerFunc {
	body := sync.OnceValue(func() []byte {
		b := bytes.NewBufferString("<!doctype html><title>" + title + "</title><p>")
		rng := rand.New(rand.NewPCG(uint64(n), uint64(len(title))))
		for b.Len() < n-32 {
			fmt.Fprintf(b, "%s %x ", title, rng.Uint32())
		}
		b.WriteString(strings.Repeat(" ", max(0, n-b.Len())))
		return b.Bytes()
	})
	return serveFile("text/html; charset=utf-8", body)
}

func serveFile(kind string, body func() []byte) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		if kind == "" {
			rw.Header()["Content-Type"] = nil // net/http would sniff it
		}
		rw.Header().Set("Content-Length", strconv.Itoa(len(body())))
		_, _ = rw.Write(body()) // the log has what was sent
	}
}

// at limits a file to a number of bytes per second.
func at(rate int, h http.HandlerFunc) http.HandlerFunc { return faulty.Slow(rate)(h).ServeHTTP }

// withFiles is one site of one page that links to files.
func withFiles(files map[string]http.HandlerFunc) []*faulty.Site {
	all := sites(1, 1, 0)
	all[0].Files = files
	return all
}

// bodyRows are about bodies that are long, slow or not what they claim to be.
func bodyRows() []row {
	return []row{
		{
			name: "body-slow-line", command: crawl,
			sites: withFiles(map[string]http.HandlerFunc{
				"/slow": at(80_000, htmlFile("slow", 5_900_000)),
			}),
		},
		{
			name: "body-binary", command: crawl,
			sites: withFiles(map[string]http.HandlerFunc{
				"/blob": at(2<<20, file("", "\x7fELF\x02\x01\x01\x00", 20<<20)),
				"/pdf":  at(2<<20, file("text/html", "%PDF-1.7\n", 20<<20)),
			}),
			want: want{missing: 2, check: littleOfBinaries},
		},
		{
			name: "body-archived", command: crawl, args: []string{"--warc"},
			sites: withFiles(map[string]http.HandlerFunc{
				"/paper.pdf": file("application/pdf", "%PDF-1.7\n", 300<<10),
				"/image.png": file("image/png", "\x89PNG\r\n\x1a\n", 300<<10),
			}),
			want: want{check: archived},
		},
		{
			name: "body-charset", command: crawl,
			sites: withFiles(map[string]http.HandlerFunc{
				// The query is "привет" in windows-1251.
				"/list": serveFile("text/html; charset=windows-1251", func() []byte {
					return []byte("<title>list</title>" +
						"<a href='/find?q=\xef\xf0\xe8\xe2\xe5\xf2'>1</a>")
				}),
			}),
			want: want{check: func(w *world) []string {
				if w.count(func(h faulty.Hit) bool {
					return h.Path == "/find?q=%EF%F0%E8%E2%E5%F2"
				}) == 0 {
					return []string{"the query was not sent in the charset of its page"}
				}
				return nil
			}},
		},
		{
			name: "body-memory", long: true, command: crawl, sites: large(64),
			gap: time.Millisecond,
			// Twenty megabytes are more than limits.max_body_bytes.
			settle: 10 * time.Minute, want: want{missing: 64, check: func(w *world) []string {
				return atMost(int(w.memory.Load()>>20), 192+64, "MiB were resident")
			}},
		},
	}
}

// large returns sites with pages of 5 and 20 MB.
func large(n int) []*faulty.Site {
	all := sites(n, 1, 0)
	five, twenty := htmlFile("five", 5_000_000), htmlFile("twenty", 20_000_000)
	for _, s := range all {
		s.Files = map[string]http.HandlerFunc{"/five": five, "/twenty": twenty}
	}
	return all
}

// littleOfBinaries checks that binary files were not read, and not counted as pages.
func littleOfBinaries(w *world) (faults []string) {
	for _, h := range w.web.Log() {
		if h.Path == "/blob" || h.Path == "/pdf" {
			faults = append(faults, atMost(int(h.Sent>>20), 4, "MiB of "+h.Path+" were sent")...)
		}
	}
	if !contains(w.output(), `(?m)^pages\s+1$`) {
		faults = append(faults, "binary files were counted as pages")
	}
	return faults
}

// archived checks that the archive has both files to their last byte.
func archived(w *world) []string {
	files, err := filepath.Glob(filepath.Join(w.peers[0].home, "archive", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		return []string{fmt.Sprintf("no archive: %v", err)}
	}
	n := 0
	for _, name := range files {
		text, err := readGzip(name)
		if err != nil {
			return []string{err.Error()}
		}
		n += bytes.Count(text, []byte(endMark))
	}
	if n != 2 {
		return []string{fmt.Sprintf("%d of 2 files are in the archive with their last bytes", n)}
	}
	return nil
}

func readGzip(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
