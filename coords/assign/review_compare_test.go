package assign

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestStudentTail(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ t, nu, want float64 }{
		{0, 8, 0.5}, {2.228, 10, 0.025}, {4.501, 8, 1e-3}, {6.442, 8, 1e-4}, {4.144, 10, 1e-3},
		{5.694, 10, 1e-4}, {3.552, 20, 1e-3},
		{4.539, 20, 1e-4}, {-2.228, 10, 0.975},
	} {
		if got := studentTail(x.t, x.nu); math.Abs(got/x.want-1) > 0.1 {
			t.Errorf("%v at %v degrees of freedom: %v, want %v", x.t, x.nu, got, x.want)
		}
	}
}

func TestBinomialTail(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		k, n int
		p    float64
		want float64
	}{{0, 5, 0.3, 1}, {5, 5, 0.5, 1.0 / 32}, {1, 2, 0.5, 0.75}, {3, 2, 0.5, 0}} {
		if got := binomialTail(x.k, x.n, x.p); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%d of %d at %v: %v, want %v", x.k, x.n, x.p, got, x.want)
		}
	}
}

// series is what two peers fetch: the owner a page a second, the other one each
// so many seconds, for so long. noise is what is added to the logarithm of a time.
func series(each, seconds int, lead float64, noise func() float64) (ours, theirs []page) {
	for i := range seconds {
		age := time.Duration(seconds-1-i) * time.Second
		if i%each == each/2 {
			theirs = append(theirs, page{log: 5 - lead + noise(), age: age})
		} else {
			ours = append(ours, page{log: 5 + noise(), age: age})
		}
	}
	return ours, theirs
}

// A peer that saves exactly the margin is found to save more as often as the
// p-value allows, whatever the tails of the scatter: counted over many checks,
// each with one more window.
func TestPValueIsCalibrated(t *testing.T) {
	t.Parallel()
	const margin, allowed, runs, looks = 0.1, 2e-3, 400, 40
	for name, noise := range map[string]func(*rand.Rand) float64{
		"normal": func(r *rand.Rand) float64 { return 0.4 * r.NormFloat64() },
		"late pages": func(r *rand.Rand) float64 {
			x := 0.3 * r.NormFloat64()
			if r.IntN(10) == 0 {
				x += 2.5 * r.Float64()
			}
			return x
		},
	} {
		rng := rand.New(rand.NewPCG(1, 7))
		wrong, first := 0, 0
		for range runs {
			ours, theirs := series(7, 7*(looks+3), -math.Log(1-margin), func() float64 {
				return noise(rng)
			})
			bs := windows(ours, theirs, 0.3)
			seen := false
			for i := range looks {
				part := slices.Clone(bs[looks-i:])
				shift := part[0].last
				for j := range part {
					part[j].first, part[j].last = part[j].first-shift, part[j].last-shift
				}
				if judge(part, 0, margin, 3) <= allowed {
					wrong++
					if !seen {
						first++
					}
					seen = true
				}
			}
		}
		share := float64(first) / (runs * looks)
		t.Logf("%s: %d of %d checks wrong, %d runs: %.5f per check", name, wrong, runs*looks, first,
			share)
		if share > 1.5*allowed {
			t.Errorf("%s: %.5f mistakes per check, want %v", name, share, allowed)
		}
	}
}

// A step to a third is certain after three windows; a single late page of the
// owner has no effect, nor have pages of different times.
func TestJudge(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(2, 7))
	noise := func() float64 { return 0.15 * rng.NormFloat64() }
	ours, theirs := series(7, 40, math.Log(3), noise)
	if d := judge(windows(ours, theirs, 0.2), 0, 0.1, 3); d > 1e-4 {
		t.Errorf("judge(three times as fast) = %v, want a small p-value", d)
	}
	if d := judge(windows(ours, theirs[len(theirs)-2:], 0.2), 0, 0.1, 3); d < 1 {
		t.Errorf("judge(two windows) = %v, want p-value 1", d)
	}
	if d := judge(windows(ours, theirs, 0.2), 0.5, 0.1, 3); d < 1e-2 {
		t.Errorf("judge(large drift) = %v, want a large p-value", d)
	}
	for i := range ours {
		ours[i].age += time.Minute
	}
	if bs := windows(ours, theirs, 0.2); len(bs) > 1 {
		t.Errorf("windows without pages of the owner = %d, want 0", len(bs))
	}
	ours, theirs = series(7, 100, 0, noise)
	for i := range ours {
		if i%20 == 0 {
			ours[i].log += 2
		}
	}
	if d := judge(windows(ours, theirs, 0.2), 0, 0.1, 3); d < 0.05 {
		t.Errorf("judge(equal peers) = %v, want a large p-value", d)
	}
}

// A window may have several pages of each peer, and each page is in one window.
func TestWindows(t *testing.T) {
	t.Parallel()
	at := func(ages ...int) (ps []page) {
		for _, a := range ages {
			ps = append(ps, page{age: time.Duration(a) * time.Second})
		}
		return ps
	}
	bs := windows(append(at(100, 62, 58, 31, 9, 2, 1), page{failed: true}), at(60, 28, 27, 24, 5),
		0.2)
	var got [][2]int
	for _, b := range bs {
		got = append(got, [2]int{len(b.ours), len(b.theirs)})
	}
	if len(got) != 3 || got[0] != [2]int{3, 1} || got[1] != [2]int{1, 3} || got[2] != [2]int{2, 1} {
		t.Errorf("windows() = %v", got)
	}
}
