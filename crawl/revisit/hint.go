package revisit

import (
	"math"
	"time"
)

// Hint is what a sitemap or feed says about a page.
type Hint struct {
	LastMod time.Time     // time of the last change; zero: not given
	Period  time.Duration // between changes; 0: not given
}

const (
	// minTrust is the trust below which hints are ignored. The initial trust is one half.
	minTrust = 0.25
	// maxScoredHints is the number of scored hints after which the scores are halved, so
	// that a site can regain trust.
	maxScoredHints = 16
)

// AddHint records a hint; the newest counts. A change in the future is ignored. Call
// Policy.Next afterwards.
func (h *History) AddHint(at time.Time, hint Hint) {
	if !hint.LastMod.IsZero() && !hint.LastMod.After(at) {
		h.Hinted = max(0, hint.LastMod.Unix())
	}
	if s := hint.Period / time.Second; s > 0 {
		h.Period = uint32(min(s, math.MaxUint32))
	}
}

// claimsChange reports whether a hint names a change after the last visit.
func (h *History) claimsChange() bool { return h.Fetched != 0 && h.Hinted > h.Fetched }

// scoreHint records whether a hint of a change was right. It must be called before the
// visit is recorded.
func (h *History) scoreHint(changed bool) {
	if !h.claimsChange() {
		return
	}
	if changed {
		h.Right++
	} else {
		h.Wrong++
	}
	if h.Right+h.Wrong > maxScoredHints {
		h.Right, h.Wrong = h.Right/2, h.Wrong/2
	}
}

// trust returns how far hints are trusted: from 0, if at most one in four was right, to 1.
// The share of right hints is estimated by Laplace's rule of succession.
func (h *History) trust() float64 {
	right := (float64(h.Right) + 1) / (float64(h.Right) + float64(h.Wrong) + 2)
	return max(0, (right-minTrust)/(1-minTrust))
}

// prior returns the expected rate of changes per second before the visits to the page
// itself are counted. A Period can only raise it, in proportion to its trust.
func (p Policy) prior(h History) float64 {
	rate := slowRate(p.Initial.Seconds(), p.Price.Seconds())
	if h.Period > 0 {
		hinted := min(1/float64(h.Period), gain(peak)/p.Price.Seconds())
		rate += max(0, hinted-rate) * h.trust()
	}
	return rate
}

// advance brings a visit that is planned wait seconds after the last one forward, towards
// the change that a hint names.
func (p Policy) advance(h History, wait float64) float64 {
	if !h.claimsChange() {
		return wait
	}
	soonest := max(p.Min.Seconds(), float64(h.Hinted-h.Fetched))
	return min(wait, soonest+(wait-soonest)*(1-h.trust()))
}
