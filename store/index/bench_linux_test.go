package index

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"

	"peerd/store"
)

var texts = flag.String("texts", "", "file written by peerd export text, with the pages of "+
	"BenchmarkApply; empty: made-up ones")

// BenchmarkApply measures the processor time of indexing a page, merges included, by the number of
// pages of a batch, and the size of the index relative to the texts.
func BenchmarkApply(b *testing.B) {
	docs := benchPages(b)
	for _, size := range []int{50, 200, 512} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			var text, index int64
			used := processorTime(b)
			for range b.N {
				dir := b.TempDir()
				x, err := Open(dir)
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; i < len(docs); i += size {
					batch := Batch{Pages: docs[i:min(i+size, len(docs))]}
					if err := x.Apply(batch); err != nil {
						b.Fatal(err)
					}
				}
				awaitMerges(b, x)
				if err := x.Close(); err != nil {
					b.Fatal(err)
				}
				index += folderSize(b, dir)
			}
			used = processorTime(b) - used
			for _, d := range docs {
				text += int64(len(d.Text))
			}
			n := float64(b.N)
			b.ReportMetric(float64(used.Microseconds())/n/float64(len(docs)), "cpu-µs/page")
			b.ReportMetric(100*float64(index)/n/float64(text), "%text")
		})
	}
}

// awaitMerges waits until no more segments are to be merged.
func awaitMerges(b *testing.B, x *Index) {
	for {
		m := x.scorch.(*scorch.Scorch).StatsMap()
		root := m["CurRootEpoch"]
		if root == m["LastMergedEpoch"] && root == m["LastPersistedEpoch"] {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func folderSize(b *testing.B, dir string) (n int64) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil { // removed after a merge
			n += info.Size()
		}
	}
	return n
}

// benchPages returns the pages of the file, or 1,000 of which words have the frequencies of those
// in a natural language (Zipf).
func benchPages(b *testing.B) (docs []Document) {
	if *texts == "" {
		r := rand.New(rand.NewPCG(1, 2))
		z := rand.NewZipf(r, 1.1, 8, 200_000)
		for i := range 1000 {
			var text strings.Builder
			for range 200 + r.IntN(1000) {
				fmt.Fprintf(&text, "w%x ", z.Uint64()*2654435761%(1<<32))
			}
			docs = append(docs, page(fmt.Sprintf("http://h%d.example/%d", i%7, i), "title",
				"the of and to "+text.String()))
		}
		return docs
	}
	f, err := os.Open(*texts)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var line struct {
			URL, Title, Text string
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			b.Fatal(err)
		}
		d := page(line.URL, line.Title, line.Text)
		d.URL = store.URL(line.URL)
		docs = append(docs, d)
	}
	if err := lines.Err(); err != nil {
		b.Fatal(err)
	}
	return docs
}
