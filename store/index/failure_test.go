package index

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	bleve "github.com/blevesearch/bleve_index_api"
)

// After a batch could not be written, searches find what was indexed before, also in a view that
// was opened before, and nothing of the batch. The next batch is stored.
func TestSearchAfterFailure(t *testing.T) {
	t.Parallel()
	x := open(t)
	apply(t, x, page("http://a.example/", "One", "word"))
	before, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	away := x.dir + ".away"
	if err := os.Rename(x.dir, away); err != nil {
		t.Fatal(err)
	}
	if err := x.Apply(Batch{Pages: []Document{page("http://b.example/", "Two", "word")},
		Position: Position{"file": 2}}); err == nil {
		t.Fatal("a batch was written without a folder")
	}
	if err := os.Rename(away, x.dir); err != nil {
		t.Fatal(err)
	}
	if got := urls(find(t, x, "word", nil)); len(got) != 1 || x.Position()["file"] != 0 {
		t.Errorf("after a failure searches find %v, the position is %v", got, x.Position())
	}
	if n, err := before.Count(Query{Words: []Word{{Text: "word"}}}); err != nil || n.With[0] != 1 {
		t.Errorf("a view opened before: %+v, %v", n, err)
	}
	apply(t, x, page("http://b.example/", "Two", "word"))
	if got := urls(find(t, x, "word", nil)); len(got) != 2 {
		t.Errorf("after the next batch searches find %v", got)
	}
}

// A damaged index is opened in an earlier state, or empty, with the position of that.
func TestDamaged(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	x, err := Open(whole)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := x.Apply(Batch{Position: Position{"file": int64(i + 1)}, Pages: []Document{
			page(fmt.Sprintf("http://a.example/%d", i), "Title", "word")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(whole)
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		for name, damage := range map[string]func(data []byte) []byte{
			"empty":     func([]byte) []byte { return nil },
			"short":     func(data []byte) []byte { return data[:10] },
			"half":      func(data []byte) []byte { return data[:len(data)/2] },
			"zeros":     func(data []byte) []byte { return make([]byte, len(data)) },
			"zero tail": func(data []byte) []byte { clear(data[len(data)/2:]); return data },
		} {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, file.Name())
			data, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, damage(data), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			x, err := Open(dir)
			if err != nil {
				t.Fatalf("%s: %s: %v", file.Name(), name, err)
			}
			found := find(t, x, "word", nil).Total
			if at := x.Position()["file"]; at != int64(found) {
				t.Errorf("%s: %s: found %d, position %d", file.Name(), name, found, at)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// brokenIndex has postings of which the first page cannot be read.
type brokenIndex struct {
	bleve.IndexReader
	closed *int
}

type brokenPostings struct {
	bleve.TermFieldReader
	closed *int
}

func (b brokenIndex) TermFieldReader(
	context.Context, []byte, string, bool, bool, bool,
) (bleve.TermFieldReader, error) {
	return brokenPostings{closed: b.closed}, nil
}

func (brokenPostings) Count() uint64 { return 1 }
func (brokenPostings) Next(*bleve.TermFieldDoc) (*bleve.TermFieldDoc, error) {
	return nil, ErrCorrupt
}
func (b brokenPostings) Close() error { *b.closed++; return nil }

func TestPostingsClosedAfterError(t *testing.T) {
	t.Parallel()
	closed := 0
	_, err := openUnion(brokenIndex{closed: &closed}, fieldText, []string{"word"}, false)
	if !errors.Is(err, ErrCorrupt) || closed != 1 {
		t.Errorf("openUnion() = %v, closed %d postings, want 1", err, closed)
	}
}
