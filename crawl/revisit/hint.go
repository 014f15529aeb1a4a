package revisit

import (
	"math"
	"time"
)

// Hint is what a sitemap or feed says about a page.
type Hint struct {
	LastMod time.Time     // time of the last change; zero: not given
	Period  time.Duration // between changes; 0: not given
	Site    Score         // of hints of a change for other pages of the same site
}

// Score counts hints of a change: those after which a visit has found one, and the others.
type Score struct {
	Right uint8 `cbor:"1,keyasint,omitempty"`
	Wrong uint8 `cbor:"2,keyasint,omitempty"`
}

// Add returns the score with one more hint. Old hints count half as much when there are many.
func (s Score) Add(right bool, most uint8) Score {
	if right {
		s.Right++
	} else {
		s.Wrong++
	}
	if s.total() > float64(most) {
		s.Right, s.Wrong = s.Right/2, s.Wrong/2
	}
	return s
}

// total returns the number of hints.
func (s Score) total() float64 { return float64(s.Right) + float64(s.Wrong) }

// share estimates the share of right hints by Laplace's rule of succession.
func (s Score) share() float64 { return (float64(s.Right) + 1) / (s.total() + 2) }

const (
	// minTrust is the trust below which hints are ignored. The initial trust is one half.
	minTrust = 0.25
	// maxScoredHints is the number of scored hints after which the scores are halved, so
	// that a site can regain trust.
	maxScoredHints = 16
	// MaxSiteHints is the same for the score of a site.
	MaxSiteHints = 64
)

// AddHint records a hint; the newest counts. A change in the future is ignored. Call
// Policy.Next afterwards.
func (h *History) AddHint(at time.Time, hint Hint) {
	if !hint.LastMod.IsZero() && !hint.LastMod.After(at) {
		h.Hinted = max(0, hint.LastMod.Unix())
	}
	h.Site = hint.Site
	if s := hint.Period / time.Second; s > 0 {
		h.Period = uint32(min(s, math.MaxUint32))
	}
}

// ClaimsChange reports whether a hint names a change after the last visit.
func (h *History) ClaimsChange() bool { return h.Fetched != 0 && h.Hinted > h.Fetched }

// scoreHint records whether a hint of a change was right. It must be called before the
// visit is recorded.
func (h *History) scoreHint(changed bool) {
	if h.ClaimsChange() {
		s := Score{Right: h.Right, Wrong: h.Wrong}.Add(changed, maxScoredHints)
		h.Right, h.Wrong = s.Right, s.Wrong
	}
}

// trust returns how far hints are trusted: from 0, if at most one in four was right, to 1. The
// share of right hints of the site is where the estimate for the page begins, and counts as much as
// the page's own hints can. Without any, the share is one half.
func (h *History) trust() float64 {
	weight := min(h.Site.total(), maxScoredHints) + 2
	right := (float64(h.Right) + h.Site.share()*weight) /
		(float64(h.Right) + float64(h.Wrong) + weight)
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
	if !h.ClaimsChange() {
		return wait
	}
	soonest := max(p.Min.Seconds(), float64(h.Hinted-h.Fetched))
	return min(wait, soonest+(wait-soonest)*(1-h.trust()))
}
