package robots

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
)

// maxRedirects is the maximum number of consecutive redirects that are followed (RFC 9309,
// section 2.3.1.2).
const maxRedirects = 5

// A Response is a complete response to a request for a robots.txt, or for where it redirects.
type Response struct {
	Status       int
	Location     string // the field of that name
	CacheControl string // the field of that name; several are joined with commas
	Body         []byte
}

// Fetcher sends requests. An error of Fetch means that there was no complete response.
type Fetcher interface {
	// Fetch sends one GET request and follows no redirects. The body is cut at maxBody bytes.
	// The targets of redirects may be on other hosts: to refuse one, Fetch returns a 4xx
	// status, and the file is treated as absent.
	Fetch(ctx context.Context, u store.URL, maxBody int64) (Response, error)
	// Valid returns the result of another origin if it is known and has not expired. It is used
	// if a robots.txt redirects to that of the other origin.
	Valid(origin string) (Result, bool)
}

// Get fetches the robots.txt of an origin (scheme://host[:port]). It always returns a result:
// every failure is one of the cases of RFC 9309, section 2.3.1. If the file redirects to the
// robots.txt of another origin, from is that origin, for which the result holds as well: a request
// for its robots.txt would be the same. Otherwise from is origin.
func Get(ctx context.Context, f Fetcher, origin string) (r Result, from string) {
	r = Result{Unreachable: true}
	lifetime, from := Lifetime, origin
	u := store.URL(origin + path)
	for range 1 + maxRedirects {
		if from = origin; u.Origin()+path == string(u) {
			from = u.Origin()
		}
		if from != origin {
			if known, ok := f.Valid(from); ok {
				return known, from
			}
		}
		got, err := f.Fetch(ctx, u, MaxBody)
		if err != nil {
			r.Status, r.Unreachable = 0, true
			break
		}
		r.Status = got.Status
		if got.Status < 300 || got.Status > 399 {
			lifetime = lifetimeOf(got.CacheControl)
			r.Unreachable = unreachable(got.Status)
			if got.Status >= 200 && got.Status <= 299 {
				r.Body = got.Body[:min(len(got.Body), MaxBody)]
			}
			break
		}
		// If a redirect is invalid or one too many, the file is treated as absent.
		r.Unreachable = false
		if u, err = canon.Join(u, got.Location); got.Location == "" || err != nil {
			from = origin
			break
		}
	}
	// Without the monotonic clock reading, which is not stored.
	r.Fetched = time.Now().UTC().Round(0)
	r.Expires = r.Fetched.Add(lifetime)
	if r.Unreachable {
		r.Expires = r.Fetched.Add(RetryUnreachable)
	}
	return r, from
}

// path is where a robots.txt is (RFC 9309, section 2.3).
const path = "/robots.txt"

// lifetimeOf returns how long a response is valid that has a Cache-Control field (RFC 9111,
// section 5.2.2): max-age, or the shortest time if it must not be stored or used again. Of several
// ages, the shortest holds; one that is not a number says nothing (section 1.2.2).
func lifetimeOf(cacheControl string) time.Duration {
	lifetime := MaxLifetime + 1
	for directive := range strings.SplitSeq(cacheControl, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			lifetime = 0
		case "max-age":
			value = strings.Trim(value, `"`)
			if value == "" || strings.Trim(value, "0123456789") != "" {
				continue
			}
			seconds, err := strconv.Atoi(value)
			if err != nil || seconds > int(MaxLifetime/time.Second) { // more digits than fit
				seconds = int(MaxLifetime / time.Second)
			}
			lifetime = min(lifetime, time.Duration(seconds)*time.Second)
		}
	}
	if lifetime > MaxLifetime {
		return Lifetime
	}
	return max(lifetime, MinLifetime)
}

// unreachable reports whether the rules of the site are unknown after a final status: server
// errors, invalid statuses, and 429, which asks the client to wait and does not permit a crawl
// without rules.
func unreachable(status int) bool {
	return status < 200 || status > 499 || status == http.StatusTooManyRequests
}
