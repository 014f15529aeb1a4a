package index

import (
	"testing"
	"time"
)

// Matches agrees with searches of an index that has the page alone.
func TestMatches(t *testing.T) {
	t.Parallel()
	d := Document{URL: "http://docs.a.example/x", Title: "Pears", Type: "html",
		Text:      "Pears\nThe indexes of pears are on this page, with the apples of the year 2026",
		FetchedAt: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	x, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Apply(Batch{Pages: []Document{d}, Position: Position{}}); err != nil {
		t.Fatal(err)
	}
	r, err := x.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found := 0
	for _, text := range []string{"pear", "pear -apple", "pear -plum", "pear plum", "indexing",
		"2026", `"pears are on"`, `"are pears on"`, "site:a.example", "site:docs.a.example pear",
		"site:b.example", "lang:en", "lang:de", "lang:en apple", "filetype:text pear",
		"filetype:html", "date:2026-03", "date:2026-03-05.. pear", "date:..2026-03-04",
		"die pear"} {
		q, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := r.Count(q)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Search(t.Context(), q, c, 10,
			func(Meta) (string, error) { return d.Text, nil })
		if err != nil {
			t.Fatal(err)
		}
		if want := len(res.Hits) > 0; q.Matches(d) != want {
			t.Errorf("%s: %v, a search %v", text, !want, want)
		} else if want {
			found++
		}
	}
	if found != 12 {
		t.Errorf("%d queries find the page, want 12", found)
	}
}
