package robots

import (
	"context"
	"net/http"
	"time"

	"peerd/crawl/canon"
	"peerd/store"
)

// maxRedirects is how many redirects in a row are followed (RFC 9309, section
// 2.3.1.2).
const maxRedirects = 5

// Fetcher does one GET and follows no redirect. The body is cut at maxBody
// bytes; location is that header's value. An error means that no complete
// answer came. It is asked for redirect targets on other hosts too: to decline
// one, return a 4xx status, and the file counts as absent.
type Fetcher interface {
	Fetch(ctx context.Context, u store.URL, maxBody int64) (status int, location string, body []byte, err error)
}

// Get fetches the robots.txt of an origin (scheme://host[:port]). It always
// has an answer: every failure is one of the cases of RFC 9309, section 2.3.1.
func Get(ctx context.Context, f Fetcher, origin string) Verdict {
	v := Verdict{Unreachable: true}
	u := store.URL(origin + "/robots.txt")
	for range 1 + maxRedirects {
		status, location, body, err := f.Fetch(ctx, u, MaxBody)
		if err != nil {
			v.Status, v.Unreachable = 0, true
			break
		}
		v.Status = status
		if status < 300 || status > 399 {
			v.Unreachable = unreachable(status)
			if status >= 200 && status <= 299 {
				v.Body = body[:min(len(body), MaxBody)]
			}
			break
		}
		// A redirect that leads nowhere, or too far, is no file.
		v.Unreachable = false
		if u, err = canon.Join(u, location); location == "" || err != nil {
			break
		}
	}
	// Wall clock only: a monotonic reading would not survive the store.
	v.Fetched = time.Now().UTC().Round(0)
	v.Expires = v.Fetched.Add(Lifetime)
	if v.Unreachable {
		v.Expires = v.Fetched.Add(RetryUnreachable)
	}
	return v
}

// unreachable says whether a final status leaves open what the site wants:
// server errors, statuses that are none, and 429, which asks for patience and
// not for a crawl without rules.
func unreachable(status int) bool {
	return status < 200 || status > 499 || status == http.StatusTooManyRequests
}
