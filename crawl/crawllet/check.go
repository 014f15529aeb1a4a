package crawllet

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"

	"peerd/crawl/crawllet/record"
)

// SampleSize is how many pages of a site are compared. If a site lies about one page in ten, none
// of n pages that are chosen at random shows it with probability 0.9^n: 0.5 % for 50 pages. A
// share p of lies is detected with probability 1-(1-p)^n, at least; a sample without repetitions
// detects more.
const SampleSize = 50

// Sample is a random sample of the pages of a run: each set of its size is equally likely, and the
// site cannot know it. It is used by one goroutine.
type Sample struct {
	size  int
	added int
	pages []sampled
}

type sampled struct {
	url    string
	digest []byte
}

// NewSample returns an empty sample for n pages.
func NewSample(n int) *Sample { return &Sample{size: n} }

// Add offers a record to the sample (Vitter, Random Sampling with a Reservoir, ACM TOMS 11(1),
// 1985, algorithm R). Records without a complete page are ignored.
func (s *Sample) Add(r record.Record) {
	if r.Status != 200 || r.Cut || len(r.Digest) == 0 {
		return
	}
	s.added++
	page := sampled{r.URL, r.Digest}
	if len(s.pages) < s.size {
		s.pages = append(s.pages, page)
	} else if i := rand.IntN(s.added); i < s.size {
		s.pages[i] = page
	}
}

// Checked is the result of a comparison.
type Checked struct {
	Same      int
	Different []string // URLs of pages that are not what the crawllet reported
	Unknown   []string // URLs that could not be fetched
}

// Check fetches the pages of the sample and compares them with what the crawllet reported. fetch
// returns the status and the complete body of a page; its errors are those of the connection.
func (s *Sample) Check(
	ctx context.Context, fetch func(ctx context.Context, u string) (int, []byte, error),
) (Checked, error) {
	var c Checked
	for _, p := range s.pages {
		status, body, err := fetch(ctx, p.url)
		if ctx.Err() != nil {
			return c, fmt.Errorf("check %s: %w", p.url, ctx.Err())
		}
		switch {
		case err != nil || status >= 500 || status == 429:
			c.Unknown = append(c.Unknown, p.url)
		case status == 200 && bytes.Equal(record.Digest(body), p.digest):
			c.Same++
		default:
			c.Different = append(c.Different, p.url)
		}
	}
	return c, nil
}
