package index

import (
	"context"
	"errors"
	"os"
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
