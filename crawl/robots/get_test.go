package robots

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

type response struct {
	status                       int
	location, body, cacheControl string
	err                          error
}

// script is a Fetcher with a fixed response for each URL, and 404 for all others.
type script struct {
	responses map[store.URL]response
	valid     map[string]Result
	requests  []store.URL
}

func (s *script) Fetch(_ context.Context, u store.URL, maxBody int64) (Response, error) {
	s.requests = append(s.requests, u)
	r, found := s.responses[u]
	if !found {
		return Response{Status: 404}, nil
	}
	return Response{
		Status: r.status, Location: r.location,
		Header: http.Header{"Cache-Control": {r.cacheControl}},
		Body:   []byte(r.body[:min(len(r.body), int(maxBody))]),
	}, r.err
}

func (s *script) Valid(origin string) (Result, bool) {
	r, ok := s.valid[origin]
	return r, ok
}

const robotsURL = "https://example.org:8443/robots.txt"

func TestGet(t *testing.T) {
	type responses = map[store.URL]response
	only := func(r response) responses { return responses{robotsURL: r} }
	chain := func(n int) responses { // n redirects, then a file
		m := responses{}
		from, names := store.URL(robotsURL), strings.Split("abcdefgh", "")
		for i := range n {
			m[from] = response{status: 301 + i%2, location: "/" + names[i]}
			from = store.URL("https://example.org:8443/" + names[i])
		}
		m[from] = response{status: 200, body: "x"}
		return m
	}
	failed := errors.New("no route")
	for _, c := range []struct {
		name        string
		responses   responses
		status      int
		body        string
		unreachable bool
		requests    int
	}{
		{"file", chain(0), 200, "x", false, 1},
		{"one redirect", chain(1), 200, "x", false, 2},
		{"five redirects", chain(5), 200, "x", false, 6},
		{"six redirects", chain(6), 302, "", false, 6},
		{"other host", responses{
			robotsURL:                 {status: 308, location: "//other.example/r"},
			"https://other.example/r": {status: 200, body: "y"},
		}, 200, "y", false, 2},
		{"loop", only(response{status: 302, location: robotsURL}), 302, "", false, 6},
		{"no location", only(response{status: 302}), 302, "", false, 1},
		{"not modified", only(response{status: 304}), 304, "", false, 1},
		{"bad location", only(response{status: 302, location: "ftp://x/"}), 302, "", false, 1},
		{"absent", nil, 404, "", false, 1},
		{"forbidden", only(response{status: 403, body: "x"}), 403, "", false, 1},
		{"too many requests", only(response{status: 429}), 429, "", true, 1},
		{"server error", only(response{status: 500, body: "x"}), 500, "", true, 1},
		{"no HTTP status", only(response{status: 0}), 0, "", true, 1},
		{"no answer", only(response{err: failed}), 0, "", true, 1},
		{"no answer after redirect", responses{
			robotsURL:                    {status: 301, location: "/a"},
			"https://example.org:8443/a": {err: failed},
		}, 0, "", true, 2},
		{
			"too large", only(response{status: 200, body: strings.Repeat("y", MaxBody+9)}),
			200, strings.Repeat("y", MaxBody), false, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{responses: c.responses}
				r, _ := Get(t.Context(), s, "https://example.org:8443")
				if r.Status != c.status || string(r.Body) != c.body ||
					r.Unreachable != c.unreachable {
					t.Errorf("Get() = status %d, %d bytes, unreachable %v, want %d, %d, %v",
						r.Status, len(r.Body), r.Unreachable,
						c.status, len(c.body), c.unreachable)
				}
				if len(s.requests) != c.requests {
					t.Errorf("requests for %q, want %d", s.requests, c.requests)
				}
				lifetime := Lifetime
				if c.unreachable {
					lifetime = RetryUnreachable
				}
				now := time.Now()
				if !r.Fetched.Equal(now) || r.Expires.Sub(r.Fetched) != lifetime {
					t.Errorf("fetched at %v, expires at %v, want %v and %v later", r.Fetched,
						r.Expires, now, lifetime)
				}
			})
		})
	}
}

// TestGetFrom verifies for which other origin a result holds, and that a valid result of it is used
// without a request.
func TestGetFrom(t *testing.T) {
	const file, secure = "http://a.test/robots.txt", "https://a.test/robots.txt"
	known := Result{Status: 200, Body: []byte("known"), Fetched: time.Now().Add(-time.Minute)}
	redirect := func(to string) response { return response{status: 301, location: to} }
	long := map[store.URL]response{
		file: redirect("/1"), "http://a.test/1": redirect("/2"), "http://a.test/2": redirect("/3"),
		"http://a.test/3": redirect("/4"), "http://a.test/4": redirect(secure),
		secure:             redirect("/r"),
		"https://a.test/r": {status: 200, body: "x"},
	}
	for _, c := range []struct {
		name       string
		responses  map[store.URL]response
		from, body string
		requests   int
	}{
		{"no redirect", map[store.URL]response{file: {status: 200, body: "x"}},
			"http://a.test", "x", 1},
		{"to HTTPS", map[store.URL]response{
			file: redirect(secure), secure: {status: 200, body: "x"},
		}, "https://a.test", "x", 2},
		{"to HTTPS, absent", map[store.URL]response{file: redirect(secure)},
			"https://a.test", "", 2},
		{"and on", map[store.URL]response{
			file: redirect(secure), secure: redirect("/r"), "https://a.test/r": {status: 200, body: "x"},
		}, "http://a.test", "x", 3},
		{"elsewhere", map[store.URL]response{
			file: redirect("https://a.test/r"), "https://a.test/r": {status: 200, body: "x"},
		}, "http://a.test", "x", 2},
		{"with a query", map[store.URL]response{
			file: redirect(secure + "?x"), secure + "?x": {status: 200, body: "x"},
		}, "http://a.test", "x", 2},
		{"to a known one", map[store.URL]response{file: redirect("//k.test/robots.txt")},
			"http://k.test", "known", 1},
		{"invalid", map[store.URL]response{file: redirect(secure), secure: redirect("ftp://x/")},
			"http://a.test", "", 2},
		{"one too many", long, "http://a.test", "", 6},
	} {
		s := &script{responses: c.responses, valid: map[string]Result{
			"http://k.test": known, "http://a.test": {Body: []byte("not asked")},
		}}
		r, from := Get(t.Context(), s, "http://a.test")
		if from != c.from || string(r.Body) != c.body || len(s.requests) != c.requests {
			t.Errorf("%s: Get() = %q, from %s, after %q, want %q, from %s, after %d requests",
				c.name, r.Body, from, s.requests, c.body, c.from, c.requests)
		}
		if c.body == "known" && !r.Fetched.Equal(known.Fetched) {
			t.Errorf("%s: fetched at %v, want %v", c.name, r.Fetched, known.Fetched)
		}
	}
}

var lifetimes = map[string]time.Duration{
	"":                                    time.Hour,
	"public":                              time.Hour,
	"max-age=600":                         10 * time.Minute,
	"public, Max-Age=7200, s-maxage=60":   2 * time.Hour,
	`max-age="300"`:                       5 * time.Minute,
	"max-age=60":                          time.Minute,
	"max-age=0":                           time.Minute,
	"no-cache":                            time.Minute,
	"max-age=3600, no-store":              time.Minute,
	"no-cache=\"set-cookie\"":             time.Minute,
	"max-age=86400":                       24 * time.Hour,
	"max-age=31536000":                    24 * time.Hour,
	"max-age=99999999999999999999999":     24 * time.Hour,
	"max-age=7200,max-age=300":            5 * time.Minute,
	"max-age=-1":                          time.Hour,
	"max-age=":                            time.Hour,
	"max-age":                             time.Hour,
	"max-age=1h":                          time.Hour,
	"max-age=600;public":                  time.Hour,
	"stale-while-revalidate=9,max-age=90": 90 * time.Second,
}

func TestLifetimeOf(t *testing.T) {
	for field, want := range lifetimes {
		got := lifetimeOf(http.Header{"Cache-Control": {field}}, time.Now())
		if got != want {
			t.Errorf("lifetimeOf(%q) = %v, want %v", field, got, want)
		}
	}
	s := &script{responses: map[store.URL]response{
		robotsURL:                    {status: 301, location: "/a", cacheControl: "max-age=60"},
		"https://example.org:8443/a": {status: 404, cacheControl: "max-age=120"},
	}}
	r, _ := Get(t.Context(), s, "https://example.org:8443")
	if d := r.Expires.Sub(r.Fetched); d != 2*time.Minute {
		t.Errorf("valid for %v, want the 2m of the last response", d)
	}
}

// Expires counts if there is no max-age, and the age of a response in other caches is over.
func TestExpiresAndAge(t *testing.T) {
	now := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) string { return now.Add(d).Format(http.TimeFormat) }
	for _, c := range []struct {
		name                       string
		control, age, date, expire string
		want                       time.Duration
	}{
		{"expires", "", "", at(0), at(2 * time.Hour), 2 * time.Hour},
		{"another clock", "public", "", at(-9 * time.Hour), at(-7 * time.Hour), 2 * time.Hour},
		{"no date", "", "", "", at(2 * time.Hour), 2 * time.Hour},
		{"no time", "", "", at(0), "0", time.Minute},
		{"over", "", "", at(0), at(-time.Hour), time.Minute},
		{"far", "", "", at(0), at(99999 * time.Hour), 24 * time.Hour},
		{"max-age first", "max-age=600", "", at(0), at(2 * time.Hour), 10 * time.Minute},
		{"age", "max-age=7200", "3600", "", "", time.Hour},
		{"age of expires", "", "3600", at(0), at(2 * time.Hour), time.Hour},
		{"older", "max-age=600", "601", "", "", time.Minute},
		{"a long time", "max-age=172800", "3600", "", "", 24 * time.Hour},
		{"several ages", "max-age=7200", "3600, 7200", "", "", time.Hour},
		{"no age", "max-age=7200", "old", "", "", 2 * time.Hour},
		{"age without more", "", "3600", at(0), "", time.Hour},
	} {
		h := http.Header{}
		for field, value := range map[string]string{"Cache-Control": c.control, "Age": c.age,
			"Date": c.date, "Expires": c.expire} {
			if value != "" {
				h.Set(field, value)
			}
		}
		if got := lifetimeOf(h, now); got != c.want {
			t.Errorf("%s: valid for %v, want %v", c.name, got, c.want)
		}
	}
}

func FuzzLifetimeOf(f *testing.F) {
	for field := range lifetimes {
		f.Add(field, "Tue, 06 May 2031 12:00:00 GMT", "60")
	}
	f.Fuzz(func(t *testing.T, field, expires, age string) {
		h := http.Header{"Cache-Control": {field}, "Expires": {expires}, "Age": {age}}
		if d := lifetimeOf(h, time.Now()); d < MinLifetime || d > MaxLifetime {
			t.Fatalf("lifetimeOf(%q) = %v, want %v to %v", h, d, MinLifetime, MaxLifetime)
		}
	})
}
