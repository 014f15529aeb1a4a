package search

import (
	"bytes"
	"cmp"

	"peerd/internal/order"
	"peerd/store"
	"peerd/store/index"
)

// found is a hit and where it was found.
type found struct {
	index.Hit
	from  int // number of the participant
	place int // in its result
}

// merge returns sorted hits without copies: of pages with the same URL it keeps the latest version,
// of pages with the same text the best, and a page that names another as its canonical one only if
// that is not found.
func merge(all []found) []found {
	latest := map[store.URL]int{} // places in all
	for i, f := range all {
		if old, ok := latest[f.URL]; !ok || all[old].FetchedAt.Before(f.FetchedAt) {
			latest[f.URL] = i
		}
	}
	texts := map[index.Digest]bool{}
	named := map[store.URL]bool{} // canonical URLs of pages that are kept
	kept := all[:0:0]
	for i, f := range all {
		if latest[f.URL] != i || texts[f.Digest] {
			continue
		}
		if f.Canonical != "" {
			if _, ok := latest[f.Canonical]; ok || named[f.Canonical] {
				continue
			}
			named[f.Canonical] = true
		}
		texts[f.Digest] = true
		kept = append(kept, f)
	}
	return kept
}

// sorted returns all hits, best first, in an order that does not depend on that of the results.
func sorted(results []index.Result) (all []found) {
	for from, r := range results {
		for place, h := range r.Hits {
			all = append(all, found{h, from, place})
		}
	}
	sortHits(all)
	return all
}

func sortHits(all []found) {
	order.SortFunc(all, func(a, b found) int {
		return cmp.Or(index.Compare(a.Hit, b.Hit), b.FetchedAt.Compare(a.FetchedAt),
			bytes.Compare(a.Digest[:], b.Digest[:]), cmp.Compare(a.Canonical, b.Canonical))
	})
}
