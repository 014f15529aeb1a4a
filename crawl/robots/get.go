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
	Status   int
	Location string // the field of that name
	Header   http.Header
	Body     []byte
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
			lifetime = lifetimeOf(got.Header, time.Now())
			r.Unreachable = unreachable(got.Status)
			if got.Status >= 200 && got.Status <= 299 {
				r.Body = got.Body[:min(len(got.Body), MaxBody)]
			}
			break
		}
		// If a redirect is invalid or one too many, the file of this origin is treated as absent.
		r.Unreachable, from = false, origin
		if u, err = canon.Join(u, got.Location); got.Location == "" || err != nil {
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

// lifetimeOf returns how long a response is valid that came now and has some fields (RFC 9111,
// section 4.2): until the age that it states, from which the time is taken that it was in other
// caches. Without a statement, it is Lifetime.
func lifetimeOf(h http.Header, now time.Time) time.Duration {
	lifetime, ok := maxAge(strings.Join(h.Values("Cache-Control"), ","))
	if !ok {
		lifetime, ok = untilExpires(h, now)
	}
	if !ok {
		return Lifetime
	}
	age, _, _ := strings.Cut(h.Get("Age"), ",")
	if d, ok := deltaSeconds(strings.TrimSpace(age)); ok {
		lifetime = max(0, lifetime) - d
	}
	return max(MinLifetime, min(lifetime, MaxLifetime))
}

// maxAge returns the age that a Cache-Control field states (RFC 9111, section 5.2.2), if any:
// max-age, or 0 if the response must not be stored or used again. Of several ages, the shortest
// holds; one that is not a number says nothing (section 1.2.2).
func maxAge(cacheControl string) (age time.Duration, ok bool) {
	for directive := range strings.SplitSeq(cacheControl, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-store", "no-cache":
			return 0, true
		case "max-age":
			if d, valid := deltaSeconds(strings.Trim(value, `"`)); valid && (!ok || d < age) {
				age, ok = d, true
			}
		}
	}
	return age, ok
}

// deltaSeconds parses a number of seconds (RFC 9111, section 1.2.2); a larger one than matters is
// cut.
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	const most = int(366 * 24 * time.Hour / time.Second)
	n, err := strconv.Atoi(s)
	if err != nil || n > most { // more digits than fit
		n = most
	}
	return time.Duration(n) * time.Second, true
}

// untilExpires returns the time from the Date of a response to its Expires, if it has that (RFC
// 9111, section 4.2.1). One that is no date is in the past (section 5.3).
func untilExpires(h http.Header, now time.Time) (time.Duration, bool) {
	expires := h.Get("Expires")
	if expires == "" {
		return 0, false
	}
	at, err := http.ParseTime(expires)
	if err != nil {
		return 0, true
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return at.Sub(now), true
}

// unreachable reports whether the rules of the site are unknown after a final status: server
// errors, invalid statuses, and 429, which asks the client to wait and does not permit a crawl
// without rules.
func unreachable(status int) bool {
	return status < 200 || status > 499 || status == http.StatusTooManyRequests
}
