package revisit

import (
	"math"
	"time"
)

// Hint is what a sitemap or feed says of a page.
type Hint struct {
	LastMod time.Time     // time of the last change; zero: not said
	Period  time.Duration // between changes; 0: not said
}

const (
	// doubt is the trust below which hints count for nothing. They start at a half.
	doubt = 0.25
	// maxHints is when what is known of hints is halved, so that sites can mend.
	maxHints = 16
)

// Suggest notes a hint, of which the newest counts. A change in the future is
// no hint. A caller asks Policy.Next again afterwards.
func (h *History) Suggest(at time.Time, hint Hint) {
	if !hint.LastMod.IsZero() && !hint.LastMod.After(at) {
		h.Hinted = max(0, hint.LastMod.Unix())
	}
	if s := hint.Period / time.Second; s > 0 {
		h.Period = uint32(min(s, math.MaxUint32))
	}
}

// claimsChange says whether a hint names a change that no visit has seen.
func (h *History) claimsChange() bool { return h.Fetched != 0 && h.Hinted > h.Fetched }

// judge counts whether a hint of a change came true. It is called before the
// visit is noted.
func (h *History) judge(changed bool) {
	if !h.claimsChange() {
		return
	}
	if changed {
		h.Right++
	} else {
		h.Wrong++
	}
	if h.Right+h.Wrong > maxHints {
		h.Right, h.Wrong = h.Right/2, h.Wrong/2
	}
}

// trust is how far hints are believed: from 0, at one right in four or less, to
// 1. The share of right ones is estimated by Laplace's rule of succession.
func (h *History) trust() float64 {
	right := (float64(h.Right) + 1) / (float64(h.Right) + float64(h.Wrong) + 2)
	return max(0, (right-doubt)/(1-doubt))
}

// prior is the rate a second that is expected of the page before its own
// visits are counted. A Period can only raise it, by as much as it is trusted.
func (p Policy) prior(h History) float64 {
	rate := slowRate(p.Initial.Seconds(), p.Price.Seconds())
	if h.Period > 0 {
		said := min(1/float64(h.Period), gain(peak)/p.Price.Seconds())
		rate += max(0, said-rate) * h.trust()
	}
	return rate
}

// advance brings a visit forward that is planned wait seconds after the last
// one, towards the change that a hint names.
func (p Policy) advance(h History, wait float64) float64 {
	if !h.claimsChange() {
		return wait
	}
	soonest := max(p.Min.Seconds(), float64(h.Hinted-h.Fetched))
	return min(wait, soonest+(wait-soonest)*(1-h.trust()))
}
