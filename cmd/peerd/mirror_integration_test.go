//go:build integration

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"peerd/lab/emulate/web"
	"peerd/node/admin"
)

// When a peer is killed, all queries find at all other peers what they found before, in the same
// order and with the same numbers of matching pages, through the copy of its archive. When it is
// back, it answers itself, and its copy goes on.
func TestSearchMirror(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 320, Seed: 43,
		MinDelay: 20 * time.Millisecond}, 143)
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info")
	var ds []*daemon
	for i := range byte(5) {
		d := newDaemon(t, append(slices.Clone(flags), "--listen", freeAddr(t, 143+i))...)
		appendSettings(t, d.home, "[archive]\nenabled = true\n[search]\nenabled = true\n")
		ds = append(ds, d)
	}
	meet(t, ds)
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	eventually(t, 5*time.Minute, "all pages are fetched", func() (bool, any) {
		a := w.Audit()
		return a.PagesFetched == a.PagesExpected, a.PagesFetched
	})
	untilMirrored(t, ds)

	whole := func(d *daemon, q string, answered, copied int) (r admin.SearchResult) {
		eventually(t, 3*time.Minute, "all peers answer", func() (bool, any) {
			client, err := admin.Dial(filepath.Join(d.home, "api.json"))
			if err == nil {
				r, err = client.Search(t.Context(), q, 0, 10)
			}
			ok := err == nil && !r.Partial && r.Answered == answered && r.Copied == copied
			if !ok {
				time.Sleep(time.Second) // peers answer another one only so often
			}
			return ok, fmt.Sprintf("%+v, %v", r, err)
		})
		return r
	}
	fetched := 0 // with copies
	eventually(t, 2*time.Minute, "all is indexed", func() (bool, any) {
		r := searchFor(t, ds[0].home, "filetype:html")
		fetched = r.Total
		return r.Total >= w.Audit().PagesFetched && r.Answered == len(ds), r.Total
	})
	queries := manyQueries(t, ds[0])
	var before []admin.SearchResult
	hits := map[string]int{} // by peer
	for _, q := range queries {
		r := whole(ds[0], q, len(ds), 0)
		before = append(before, r)
		for _, h := range r.Hits {
			hits[h.Peer]++
		}
	}
	// Which peers own subnets depends on measurements.
	victim, ofVictim := ds[1], 0
	for _, d := range ds[1:] {
		if n := hits[d.status().PeerID]; n > ofVictim {
			victim, ofVictim = d, n
		}
	}
	if ofVictim == 0 {
		t.Fatalf("all hits of %d queries are at the peer that is asked: %v", len(queries), hits)
	}
	compare := func(n, answered, copied int, asked ...*daemon) {
		t.Helper()
		for i, q := range queries[:n] {
			r := whole(asked[i%len(asked)], q, answered, copied)
			if !slices.Equal(urlsOf(r), urlsOf(before[i])) || r.Total != before[i].Total {
				t.Errorf("%s: found %v of %d, before %v of %d", q, urlsOf(r), r.Total,
					urlsOf(before[i]), before[i].Total)
			}
			for j := range min(len(r.Hits), len(before[i].Hits)) {
				if r.Hits[j].Snippet != before[i].Hits[j].Snippet {
					t.Errorf("%s: hit %d has another snippet: %q, before %q", q, j,
						r.Hits[j].Snippet, before[i].Hits[j].Snippet)
				}
			}
		}
	}

	victim.kill()
	began := time.Now()
	client, err := admin.Dial(filepath.Join(ds[0].home, "api.json"))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "the copy is searched", func() (bool, any) {
		r, err := client.Search(t.Context(), "filetype:html", 0, 10)
		if err == nil && r.Total < fetched && !r.Partial {
			t.Fatalf("%v after the kill the result lacks pages and is not partial: %+v",
				time.Since(began), r)
		}
		return r.Copied == 1 && !r.Partial, r
	})
	t.Logf("searched the copy %v after the kill; %d hits of %d queries are of the peer",
		time.Since(began).Round(time.Second), ofVictim, len(queries))
	others := slices.DeleteFunc(slices.Clone(ds), func(d *daemon) bool { return d == victim })
	compare(len(queries), len(ds)-1, 1, others...)

	victim.run()
	compare(10, len(ds), 0, ds[0], victim)
	untilMirrored(t, ds)
}

// untilMirrored waits until another peer has each file of the archive of each peer.
func untilMirrored(t *testing.T, ds []*daemon) {
	t.Helper()
	eventually(t, 2*time.Minute, "all archives have copies", func() (bool, any) {
		for _, d := range ds {
			s, err := d.ask()
			if err != nil {
				return false, err
			}
			if lack := notMirrored(t, d, s.PeerID, ds); lack != "" {
				return false, lack
			}
		}
		return true, nil
	})
}

// notMirrored returns a file in the archive of a peer of which no peer has a whole copy, or "".
func notMirrored(t *testing.T, d *daemon, id string, ds []*daemon) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(d.home, "archive", "*.warc.gz*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return file // it was renamed
		}
		name := strings.TrimSuffix(filepath.Base(file), ".open") + ".open"
		if !slices.ContainsFunc(ds, func(other *daemon) bool {
			c, err := os.Stat(filepath.Join(other.home, "mirrors", id, "archive", name))
			return err == nil && c.Size() == info.Size()
		}) {
			return file
		}
	}
	return ""
}

// manyQueries returns words and phrases of the pages that a peer finds.
func manyQueries(t *testing.T, d *daemon) (queries []string) {
	t.Helper()
	client, err := admin.Dial(filepath.Join(d.home, "api.json"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Search(t.Context(), "filetype:html", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, h := range r.Hits {
		words := strings.FieldsFunc(h.Title+" "+h.Snippet, func(r rune) bool {
			return !unicode.IsLetter(r)
		})
		if len(words) < 4 {
			continue
		}
		at := i % (len(words) - 1)
		for _, q := range []string{words[at], words[0] + " " + words[at+1],
			`"` + words[at] + " " + words[at+1] + `"`} {
			if !seen[q] {
				queries = append(queries, q)
			}
			seen[q] = true
		}
	}
	if len(queries) < 50 {
		t.Fatalf("only %d queries", len(queries))
	}
	return queries[:50] // peers answer few a second
}
