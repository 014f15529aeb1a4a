package crawllet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"peerd/crawl/crawllet/record"
)

func pageRecord(i int) record.Record {
	return record.Record{URL: fmt.Sprint(i), Status: 200, Digest: record.Digest(fmt.Append(nil, i))}
}

// SampleSize pages show a share of lies of 10 % with at least 99 %, also in the smallest site of
// which they are a part and in a large one.
func TestSampleSize(t *testing.T) {
	if p := 1 - math.Pow(0.9, SampleSize); p < 0.99 {
		t.Errorf("detected with probability %.4f", p)
	}
	const runs = 4000
	for _, pages := range []int{60, 1700} {
		found := 0
		all := make([]record.Record, pages)
		for i := range all {
			all[i] = pageRecord(i)
		}
		for range runs {
			s := NewSample(SampleSize)
			for _, r := range all {
				s.Add(r)
			}
			c, err := s.Check(t.Context(), func(_ context.Context, u string) (int, []byte, error) {
				if u[len(u)-1] == '7' { // one in ten
					u += "?"
				}
				return 200, []byte(u), nil
			})
			if err != nil || c.Same+len(c.Different) != SampleSize {
				t.Fatalf("%+v, %v", c, err)
			}
			if len(c.Different) > 0 {
				found++
			}
		}
		// 0.5 % are expected to be missed: 20 runs, and more than 60 with probability 1e-12.
		if found < runs-60 {
			t.Errorf("%d pages: lies were found in %d of %d runs", pages, found, runs)
		}
	}
}

// Each page is as likely to be chosen as any other.
func TestSampleUniform(t *testing.T) {
	const pages, size, runs = 20, 5, 8000
	var chosen [pages]int
	var all [pages]record.Record
	for i := range all {
		all[i] = pageRecord(i)
	}
	for range runs {
		s := NewSample(size)
		for _, r := range all {
			s.Add(r)
		}
		for _, p := range s.pages {
			var i int
			if _, err := fmt.Sscan(p.url, &i); err != nil {
				t.Fatal(err)
			}
			chosen[i]++
		}
	}
	// 2000 each, with a standard deviation of 39.
	for i, n := range chosen {
		if n < 1750 || n > 2250 {
			t.Errorf("page %d was chosen %d times, want about 2000", i, n)
		}
	}
}

func TestCheckResults(t *testing.T) {
	s := NewSample(10)
	for i := range 5 {
		s.Add(pageRecord(i))
	}
	for _, r := range []record.Record{
		{URL: "x", Status: 404}, {URL: "x", Status: 304}, {URL: "x", Status: 200, Cut: true,
			Digest: make([]byte, 32)}, {URL: "x", Status: 200},
	} {
		s.Add(r)
	}
	answers := map[string]struct {
		status int
		err    error
	}{"0": {200, nil}, "1": {404, nil}, "2": {503, nil}, "3": {0, errors.New("x")}, "4": {429, nil}}
	c, err := s.Check(t.Context(), func(_ context.Context, u string) (int, []byte, error) {
		return answers[u].status, []byte(u), answers[u].err
	})
	if err != nil || c.Same != 1 || len(c.Different) != 1 || c.Different[0] != "1" ||
		len(c.Unknown) != 3 {
		t.Errorf("Check() = %+v, %v", c, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Check(ctx, func(context.Context, string) (int, []byte, error) {
		return 200, nil, nil
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
