package robots

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

type answer struct {
	status         int
	location, body string
	err            error
}

// script answers each URL the same way always, and 404 elsewhere.
type script struct {
	answers map[store.URL]answer
	asked   []store.URL
}

func (s *script) Fetch(_ context.Context, u store.URL, maxBody int64) (int, string, []byte, error) {
	s.asked = append(s.asked, u)
	a, found := s.answers[u]
	if !found {
		return 404, "", nil, nil
	}
	return a.status, a.location, []byte(a.body[:min(len(a.body), int(maxBody))]), a.err
}

const robotsURL = "https://example.org:8443/robots.txt"

func TestGet(t *testing.T) {
	chain := func(n int) map[store.URL]answer { // n redirects, then a file
		m := map[store.URL]answer{}
		from, names := store.URL(robotsURL), strings.Split("abcdefgh", "")
		for i := range n {
			m[from] = answer{status: 301 + i%2, location: "/" + names[i]}
			from = store.URL("https://example.org:8443/" + names[i])
		}
		m[from] = answer{status: 200, body: "x"}
		return m
	}
	failed := errors.New("no route")
	for _, c := range []struct {
		name        string
		answers     map[store.URL]answer
		status      int
		body        string
		unreachable bool
		asked       int
	}{
		{"file", chain(0), 200, "x", false, 1},
		{"one redirect", chain(1), 200, "x", false, 2},
		{"five redirects", chain(5), 200, "x", false, 6},
		{"six redirects", chain(6), 302, "", false, 6},
		{"other host", map[store.URL]answer{robotsURL: {status: 308, location: "//other.example/r"}, "https://other.example/r": {status: 200, body: "y"}}, 200, "y", false, 2},
		{"loop", map[store.URL]answer{robotsURL: {status: 302, location: robotsURL}}, 302, "", false, 6},
		{"no location", map[store.URL]answer{robotsURL: {status: 302}}, 302, "", false, 1},
		{"not modified", map[store.URL]answer{robotsURL: {status: 304}}, 304, "", false, 1},
		{"bad location", map[store.URL]answer{robotsURL: {status: 302, location: "ftp://x/"}}, 302, "", false, 1},
		{"absent", nil, 404, "", false, 1},
		{"forbidden", map[store.URL]answer{robotsURL: {status: 403, body: "x"}}, 403, "", false, 1},
		{"too many requests", map[store.URL]answer{robotsURL: {status: 429}}, 429, "", true, 1},
		{"server error", map[store.URL]answer{robotsURL: {status: 500, body: "x"}}, 500, "", true, 1},
		{"no HTTP status", map[store.URL]answer{robotsURL: {status: 0}}, 0, "", true, 1},
		{"no answer", map[store.URL]answer{robotsURL: {err: failed}}, 0, "", true, 1},
		{"no answer after redirect", map[store.URL]answer{robotsURL: {status: 301, location: "/a"}, "https://example.org:8443/a": {err: failed}}, 0, "", true, 2},
		{"too large", map[store.URL]answer{robotsURL: {status: 200, body: strings.Repeat("y", MaxBody+9)}}, 200, strings.Repeat("y", MaxBody), false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				v := Get(t.Context(), s, "https://example.org:8443")
				if v.Status != c.status || string(v.Body) != c.body || v.Unreachable != c.unreachable {
					t.Errorf("verdict %d, %d bytes, unreachable %v", v.Status, len(v.Body), v.Unreachable)
				}
				if len(s.asked) != c.asked {
					t.Errorf("asked for %q", s.asked)
				}
				lifetime := Lifetime
				if c.unreachable {
					lifetime = RetryUnreachable
				}
				if !v.Fetched.Equal(time.Now()) || v.Expires.Sub(v.Fetched) != lifetime {
					t.Errorf("fetched %v, expires %v", v.Fetched, v.Expires)
				}
			})
		})
	}
}
