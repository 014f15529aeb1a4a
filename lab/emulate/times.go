package emulate

import (
	"math"
	"slices"
	"time"
)

// Times summarises download times, in milliseconds.
type Times struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	Mean float64 `json:"mean"`
}

// Summarise sorts ds and computes percentiles by nearest rank. It returns zeros for an
// empty slice.
func Summarise(ds []time.Duration) Times {
	if len(ds) == 0 {
		return Times{}
	}
	slices.Sort(ds)
	sum := 0.0
	for _, d := range ds {
		sum += millis(d)
	}
	return Times{
		P50:  round(millis(percentile(ds, 0.5)), 1e3),
		P90:  round(millis(percentile(ds, 0.9)), 1e3),
		Mean: round(sum/float64(len(ds)), 1e3),
	}
}

// percentile returns the smallest element of sorted that at least the share p of the
// elements does not exceed.
func percentile(sorted []time.Duration, p float64) time.Duration {
	i := int(math.Ceil(p*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// measured summarises the measured times, with and without estimations.
func measured(downloads []Download) (all, assigned Times) {
	var every, own []time.Duration
	for _, d := range downloads {
		every = append(every, d.Took)
		if !d.Estimation {
			own = append(own, d.Took)
		}
	}
	return Summarise(every), Summarise(own)
}

// ideal summarises the expected times of the same downloads, with the same reuse of
// connections, if the fastest peer made each (oracle) and if a random peer did. The
// latter is the exact distribution: every download by every peer.
func ideal(in Input) (oracle, random Times) {
	if in.Peers < 1 {
		return Times{}, Times{}
	}
	var best, every []time.Duration
	for _, d := range in.Downloads {
		least := time.Duration(math.MaxInt64)
		for p := range in.Peers {
			t := in.PageTime(p, d.URL, d.Reused)
			least = min(least, t)
			every = append(every, t)
		}
		best = append(best, least)
	}
	return Summarise(best), Summarise(every)
}
