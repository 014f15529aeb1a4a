//go:build integration

package outage

import (
	"fmt"
	"regexp"
	"time"

	"peerd/lab/emulate/faulty"
)

func contains(text, pattern string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// count returns the number of requests that a condition selects.
func (w *world) count(cond func(faulty.Hit) bool) (n int) {
	for _, h := range w.web.Log() {
		if cond(h) {
			n++
		}
	}
	return n
}

// atMost returns a fault if n is more than limit.
func atMost(n, limit int, what string) []string {
	if n > limit {
		return []string{fmt.Sprintf("%d %s, want at most %d", n, what, limit)}
	}
	return nil
}

// unavailableAnswers bounds the answers of 503 by a back-off that doubles: 15 in five minutes.
func unavailableAnswers(w *world) []string {
	n := w.count(func(h faulty.Hit) bool { return h.Status == 503 })
	limit := 6
	if *long {
		limit = 15
	}
	return atMost(n, limit, "answers of 503")
}

func twoQueries(w *world) []string {
	asked := map[string]int{}
	for _, q := range w.names.Queries() {
		asked[q.Name]++
	}
	most := 0
	for _, s := range w.row.sites {
		most = max(most, asked[s.Host])
	}
	return atMost(most, 2, "queries for a host")
}

func fewRedirects(w *world) []string {
	return atMost(w.count(func(h faulty.Hit) bool { return !h.HTTPS }), 2, "requests without TLS")
}

func robotsOnce(w *world) []string {
	return atMost(w.count(func(h faulty.Hit) bool {
		return h.HTTPS && h.Path == "/robots.txt"
	}), 1, "requests for robots.txt by HTTPS")
}

func fewConnections(w *world) []string {
	return atMost(int(w.web.Conns()), len(w.row.sites)*13/10, "connections")
}

// pagesAfter returns the number of requests for pages that came later than a time.
func (w *world) pagesAfter(at time.Time) int {
	return w.count(func(h faulty.Hit) bool { return h.Page && h.At.After(at) })
}
