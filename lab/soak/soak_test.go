//go:build integration

package soak

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// TestMain lets the test binary run as a child process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if err := RunChild(context.Background(), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestSlopeOfALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(-1e3, 1e3).Draw(t, "a")
		b := rapid.Float64Range(-1e3, 1e3).Draw(t, "b")
		n := rapid.IntRange(3, 50).Draw(t, "n")
		var x, y []float64
		for i := range n {
			x = append(x, float64(i))
			y = append(y, a+b*float64(i))
		}
		if got, _ := slope(x, y); math.Abs(got-b) > 1e-6*max(1, math.Abs(a), math.Abs(b)) {
			t.Fatalf("slope = %g, want %g", got, b)
		}
	})
}

func TestSlope(t *testing.T) {
	for _, tc := range []struct {
		name         string
		x, y         []float64
		want, stderr float64
	}{
		{"too few", []float64{1, 2}, []float64{1, 2}, 0, 0},
		{"all at once", []float64{1, 1, 1}, []float64{1, 2, 3}, 0, 0},
		{"flat", []float64{1, 2, 3}, []float64{5, 5, 5}, 0, 0},
		{"computed by hand", []float64{0, 1, 2}, []float64{0, 2, 1}, 0.5, math.Sqrt(1.5 / 2)},
	} {
		b, e := slope(tc.x, tc.y)
		if math.Abs(b-tc.want) > 1e-9 || math.Abs(e-tc.stderr) > 1e-9 {
			t.Errorf("%s: slope = %g ± %g, want %g ± %g", tc.name, b, e, tc.want, tc.stderr)
		}
	}
}

func TestJudgeLooksAtTheSecondHalf(t *testing.T) {
	var rs []reading
	for i := range 20 {
		r := reading{at: time.Duration(i) * time.Minute, rss: 100 << 20}
		if i < 10 {
			r.rss = int64(i) * 10 << 20 // growth during warm-up
		}
		r.Pages = int64(i) * 600
		rs = appendReading(rs, r)
	}
	v := judge(rs)
	if v.slope != 0 || v.peak != 100<<20 || v.n != 10 {
		t.Errorf("judge: slope %g, peak %d, %d readings; want 0, %d, 10", v.slope, v.peak, v.n,
			100<<20)
	}
	if v.rate != 10 || rs[5].rate != 10 {
		t.Errorf("rates %g and %g, want 10", v.rate, rs[5].rate)
	}
}

// Every page links to other pages, and unknown sites and paths give errors.
func TestEndlessGoesOn(t *testing.T) {
	e := &endless{sites: 5, port: 8080}
	link := regexp.MustCompile(`href="([^"]+)"`)
	for _, path := range []string{"/p/0", "/p/1", "/p/123456789012"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", path, nil)
		r.Host = "s3.soak.test:8080"
		e.ServeHTTP(w, r)
		if w.Code != 200 {
			t.Fatalf("%s: status %d, want 200", path, w.Code)
		}
		links := link.FindAllStringSubmatch(w.Body.String(), -1)
		if len(links) != 6 || links[0][1] == links[1][1] || links[0][1] == path {
			t.Errorf("%s: links %v, want 6 and two different new pages first", path, links)
		}
	}
	for _, bad := range []struct{ host, path string }{
		{"s5.soak.test:8080", "/p/0"}, {"other.test", "/p/0"}, {"s3.soak.test", "/"},
		{"s3.soak.test", "/robots.txt"}, {"s3.soak.test", "/p/-1"},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", bad.path, nil)
		r.Host = bad.host
		if e.ServeHTTP(w, r); w.Code < 400 {
			t.Errorf("%s%s: status %d, want an error", bad.host, bad.path, w.Code)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for v, want := range map[float64]float64{0: 1, 0.03: 0.04, 1: 1, 1.01: 2, 3: 4, 7.9: 8, 8.1: 10,
		950: 1000} {
		if got := roundUp(v); math.Abs(got-want) > 1e-9*want {
			t.Errorf("roundUp(%g) = %g, want %g", v, got, want)
		}
	}
}

func TestChartIsXML(t *testing.T) {
	for _, n := range []int{0, 1, 30} {
		rs := make([]reading, n)
		for i := range rs {
			rs[i] = reading{at: time.Duration(i) * time.Second, rss: int64(i) << 20}
		}
		var b bytes.Buffer
		if err := writeSVG(&b, rs); err != nil {
			t.Fatal(err)
		}
		if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Errorf("%d readings: NaN or Inf in\n%s", n, s)
		}
		for d := xml.NewDecoder(&b); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%d readings: %v", n, err)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []interface{ Validate() error }{
		WatchOptions{Length: time.Second, Every: time.Second},
		WatchOptions{Sites: 1, Every: time.Second}, QueueOptions{URLs: 10},
	} {
		if o.Validate() == nil {
			t.Errorf("Validate of %+v = nil, want an error", o)
		}
	}
}
