//go:build integration

package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
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

// Four peers that are killed while they crawl and index find what one index of all their
// archives finds, in its order.
func TestSearchNetwork(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 320, Seed: 41,
		MinDelay: 20 * time.Millisecond}, 141)
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info")
	var ds []*daemon
	for i := range byte(4) {
		d := newDaemon(t, append(slices.Clone(flags), "--listen", freeAddr(t, 141+i))...)
		appendSettings(t, d.home, "[archive]\nenabled = true\n[search]\nenabled = true\n")
		ds = append(ds, d)
	}
	meet(t, ds)
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	rng := rand.New(rand.NewPCG(41, 0))
	for fetched := range 6 {
		// The kill may come at any time of a batch.
		enough := 30*fetched + rng.IntN(30)
		eventually(t, 3*time.Minute, "more pages", func() (bool, any) {
			n := w.Audit().PagesFetched
			return n > enough, n
		})
		d := ds[rng.IntN(len(ds))]
		d.kill()
		d.run()
	}
	eventually(t, 5*time.Minute, "all pages are fetched", func() (bool, any) {
		a := w.Audit()
		return a.PagesFetched == a.PagesExpected, a.PagesFetched
	})
	central := centralHome(t, ds)
	queries := queriesOf(t, central)
	eventually(t, 2*time.Minute, "all is indexed", func() (bool, any) {
		r := searchFor(t, ds[0].home, "filetype:html")
		return r.Total >= w.Audit().PagesFetched && r.Answered == len(ds), r.Total
	})
	// A peer that was killed may not know all others yet, and a busy one may answer too late.
	whole := func(d *daemon, q string) (r admin.SearchResult) {
		eventually(t, time.Minute, "all peers answer", func() (bool, any) {
			r = searchFor(t, d.home, q)
			return r.Answered == len(ds) && !r.Partial, r
		})
		return r
	}
	same, gain := 0, 0.
	for i, q := range queries {
		got, want := whole(ds[i%len(ds)], q), searchFor(t, central, q)
		if slices.Equal(urlsOf(got), urlsOf(want)) {
			same++
		}
		gain += ndcg(urlsOf(got), urlsOf(want)) / float64(len(queries))
	}
	t.Logf("%d of %d queries have the same hits in the same order, mean nDCG@10 %.3f", same,
		len(queries), gain)
	if 10*same < 9*len(queries) || gain < .95 {
		t.Error("the order of the hits differs from that of one index")
	}
	ds[3].kill()
	eventually(t, time.Minute, "three peers answer", func() (bool, any) {
		r := searchFor(t, ds[0].home, queries[0])
		if r.Failed > 0 && !r.Partial {
			t.Fatalf("%d peers failed, and the result is not partial", r.Failed)
		}
		// A peer that is known to have failed is not asked any more.
		s, err := ds[0].ask()
		return r.Answered == 3 && (r.Failed == 1 || err == nil && s.Directory == 2), r
	})
}

// appendSettings adds to the config.toml of a home.
func appendSettings(t *testing.T, home, text string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(home, "config.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// centralHome returns a home with an index of what all peers have archived.
func centralHome(t *testing.T, ds []*daemon) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "central")
	peerd(t, "init", "--home", home)
	if err := os.Mkdir(filepath.Join(home, "archive"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i, d := range ds {
		peerd(t, "export", "warc", "--home", d.home, "--output",
			filepath.Join(home, "archive", "copy-2026-0000"+string(rune('0'+i))+".warc.gz"))
	}
	peerd(t, "index", "--home", home)
	return home
}

// queriesOf returns words, and pairs of words, from the titles of pages.
func queriesOf(t *testing.T, home string) (queries []string) {
	t.Helper()
	r := searchFor(t, home, "filetype:html")
	for _, h := range r.Hits {
		words := strings.FieldsFunc(h.Title, func(r rune) bool { return !unicode.IsLetter(r) })
		if len(words) > 1 {
			queries = append(queries, words[0], words[0]+" "+words[1])
		}
	}
	if len(queries) < 8 {
		t.Fatalf("only %d queries", len(queries))
	}
	return queries
}

func searchFor(t *testing.T, home, query string, flags ...string) (r admin.SearchResult) {
	t.Helper()
	args := append([]string{"search", "--json", "--home", home}, flags...)
	if err := json.Unmarshal([]byte(peerd(t, append(args, "--", query)...)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func urlsOf(r admin.SearchResult) (urls []string) {
	for _, h := range r.Hits {
		urls = append(urls, h.URL)
	}
	return urls
}

// ndcg returns the normalized discounted cumulative gain of a list of at most ten, if the gain of
// the hits of the ideal list falls from its length to 1.
func ndcg(got, ideal []string) float64 {
	sum, best := 0., 0.
	for i := range ideal {
		best += float64(len(ideal)-i) / math.Log2(float64(i)+2)
	}
	for i, u := range got {
		if at := slices.Index(ideal, u); at >= 0 {
			sum += float64(len(ideal)-at) / math.Log2(float64(i)+2)
		}
	}
	if best == 0 {
		return 1
	}
	return sum / best
}
