package warc

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A copy that is made in pieces of any size has the complete exchanges at each time, and begins a
// file again when it is told to.
func TestCopy(t *testing.T) {
	t.Parallel()
	a, err := Open(t.TempDir(), Options{MinFree: -1, MaxFile: 10 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c, err := OpenCopy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	urls := func(r *Reader) (all []string) {
		t.Helper()
		if err := r.Follow(t.Context(), map[string]int64{}, func(rec Record) error {
			if rec.Type == "response" {
				all = append(all, rec.URL)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	pull := func(piece int64) {
		t.Helper()
		held, err := c.Parts()
		if err != nil {
			t.Fatal(err)
		}
		at, err := a.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(at)) { // the newest last, as they were written
			end := at[name]
			for from := held[name].Size; from < end; {
				to := min(from+piece, end)
				data, err := a.ReadPart(name, from, to)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Write(name, from, data, to == end); err != nil {
					t.Fatal(err)
				}
				got, want := fmt.Sprint(urls(&c.Reader)), fmt.Sprint(urls(&a.Reader))
				if !strings.HasPrefix(want, strings.TrimSuffix(got, "]")) {
					t.Fatalf("copied %s of %s", got, want)
				}
				from = to
			}
			mine, err := c.Part(name, end)
			theirs, err2 := a.Part(name, end)
			if err != nil || err2 != nil || !bytes.Equal(mine.Sum, theirs.Sum) {
				t.Errorf("%s: digests %x and %x, %v, %v", name, mine.Sum, theirs.Sum, err, err2)
			}
		}
	}
	for i := range 40 {
		body := bytes.Repeat(fmt.Appendf(nil, "%d %x\n", i, newID()), 40)
		if _, err := a.Append(Exchange{URL: fmt.Sprintf("http://a.example/%d", i),
			Time: time.Now(), Response: []byte("HTTP/1.1 200 OK\r\n\r\n"),
			Body: body}); err != nil {
			t.Fatal(err)
		}
		if i%7 == 0 {
			pull(int64(1000 + 100*i))
		}
	}
	pull(512)
	want := fmt.Sprint(urls(&a.Reader))
	if got := fmt.Sprint(urls(&c.Reader)); got != want {
		t.Errorf("copied %s, want %s", got, want)
	}
	held, err := c.Parts()
	if err != nil || len(held) < 2 {
		t.Fatalf("copied files %v, %v; want several", held, err)
	}
	for name, p := range held {
		if err := c.Write(name, p.Size-1, nil, true); err == nil {
			t.Error("wrote before the end of a copied file")
		}
		if err := c.Write(name, 0, nil, true); err != nil {
			t.Error(err)
		}
	}
	if got := urls(&c.Reader); len(got) > 0 {
		t.Errorf("%d exchanges in files that were begun again", len(got))
	}
	pull(10_000)
	if got := fmt.Sprint(urls(&c.Reader)); got != want {
		t.Errorf("copied again %s, want %s", got, want)
	}
}

// A piece of which the end cannot be noted in the log is not kept, and can be written again.
func TestCopyWithoutLog(t *testing.T) {
	t.Parallel()
	const name = "a.warc.gz"
	c, err := OpenCopy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(name, 0, []byte("abc"), false); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(c.dir, logName(name))
	if err := os.Mkdir(log, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(name, 3, []byte("de"), true); err == nil {
		t.Fatal("wrote a piece without its line in the log")
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(name, 3, []byte("de"), true); err != nil {
		t.Error(err)
	}
	if size, err := c.size(name); size != 5 || err != nil {
		t.Errorf("the copied file has %d bytes, %v; want 5", size, err)
	}
}

// Names of files that would be elsewhere are refused.
func TestCheckFile(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"a.warc.gz": true, "": false, ".warc.gz": false,
		"../a.warc.gz": false, "a.warc.gz.open": false, "a.txt": false, "a\\b.warc.gz": false} {
		if err := CheckFile(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}
