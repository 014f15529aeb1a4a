package revisit

import (
	"math"
	"time"
)

const (
	// maxIntervals is the number of intervals after which all of them count half, because pages
	// change their behaviour and old visits must not outweigh new ones.
	maxIntervals = 64
	// maxFailureCount is the maximum of the counters of failed visits.
	maxFailureCount = 1 << 10
	// maxHints is the same as maxIntervals for hints.
	maxHints = 16
)

// History summarises the visits to one page in about 100 bytes of CBOR. The zero value is a page
// that was never visited. Times are Unix seconds, or 0 for never. It may be copied, but is not
// safe for concurrent writes.
type History struct {
	Visits   uint32 `cbor:"1,keyasint,omitempty"` // visits that saw the page: 2xx or 304
	Fetched  int64  `cbor:"2,keyasint,omitempty"` // last visit that saw the page
	Tried    int64  `cbor:"3,keyasint,omitempty"` // last visit, if it failed to see the page
	Failures uint16 `cbor:"4,keyasint,omitempty"` // consecutive failures
	Gone     uint16 `cbor:"5,keyasint,omitempty"` // answers 404 or 410 since the page was last seen

	ETag     string   `cbor:"6,keyasint,omitempty"` // as sent, validated
	Modified int64    `cbor:"7,keyasint,omitempty"` // Last-Modified
	Digest   [16]byte `cbor:"8,keyasint,omitzero"`  // of the content last seen

	// Of the intervals between visits that saw the page: their number, how many ended with a
	// change, and the sum of their lengths in seconds. They are fractions because they are halved.
	Intervals float32 `cbor:"9,keyasint,omitempty"`
	Changes   float32 `cbor:"10,keyasint,omitempty"`
	Observed  float32 `cbor:"11,keyasint,omitempty"`

	Hinted int64 `cbor:"12,keyasint,omitempty"` // last change according to a sitemap
	Right  uint8 `cbor:"13,keyasint,omitempty"` // right hints of a change
	Wrong  uint8 `cbor:"14,keyasint,omitempty"` // wrong hints of a change
}

// Outcome is how a visit ended.
type Outcome uint8

// The outcomes of a visit.
const (
	Fetched     Outcome = iota // 2xx with content; the digest tells whether it changed
	NotModified                // 304, or content that counts as the same
	Failed                     // no answer, or one that says nothing about the page (5xx, 429, ...)
	Gone                       // 404 or 410
)

// Observation is what one visit showed.
type Observation struct {
	Outcome      Outcome
	ETag         string // header fields as received; invalid ones are dropped
	LastModified string
	Digest       [16]byte // of the content; set for Fetched, and for NotModified with content
}

// Observe adds a visit and reports whether it found the page changed. The first content is
// not a change. Visits must be added in order of time; the interval of a visit that is not
// is ignored.
func (h *History) Observe(at time.Time, o Observation) (changed bool) {
	now := at.Unix()
	switch o.Outcome {
	case Failed:
		h.Tried = now
		h.Failures = min(h.Failures+1, maxFailureCount)
		return false
	case Gone:
		h.Tried, h.Failures = now, 0
		h.Gone = min(h.Gone+1, maxFailureCount)
		return false
	}
	first := h.Fetched == 0
	changed = !first && o.Outcome == Fetched && o.Digest != h.Digest
	if !first {
		h.addInterval(now-h.Fetched, changed)
		h.scoreHint(changed)
	}
	if o.Outcome == Fetched || o.Digest != [16]byte{} {
		h.Digest = o.Digest
	}
	h.keepValidators(o, parseModified(o.LastModified, now))
	if h.Visits < math.MaxUint32 {
		h.Visits++
	}
	h.Fetched, h.Tried, h.Failures, h.Gone = now, 0, 0, 0
	return changed
}

// addInterval adds the interval between two visits.
func (h *History) addInterval(seconds int64, changed bool) {
	if seconds <= 0 {
		return
	}
	h.Intervals++
	h.Observed += float32(seconds)
	if changed {
		h.Changes++
	}
	if h.Intervals > maxIntervals {
		h.Intervals, h.Changes, h.Observed = h.Intervals/2, h.Changes/2, h.Observed/2
	}
}

// AddHint records the time of a change according to a sitemap; the newest counts. One in the
// future is ignored. Call Policy.Next afterwards.
func (h *History) AddHint(now, changed time.Time) {
	if !changed.IsZero() && !changed.After(now) {
		h.Hinted = max(0, changed.Unix())
	}
}

// hintsChange reports whether a hint names a change after the last visit.
func (h *History) hintsChange() bool { return h.Fetched != 0 && h.Hinted > h.Fetched }

// scoreHint records whether a hint of a change was right. It must be called before the
// visit is recorded.
func (h *History) scoreHint(changed bool) {
	switch {
	case !h.hintsChange():
		return
	case changed:
		h.Right++
	default:
		h.Wrong++
	}
	if h.Right+h.Wrong > maxHints {
		h.Right, h.Wrong = h.Right/2, h.Wrong/2
	}
}

// lastVisit returns the time of the last visit of any outcome.
func (h *History) lastVisit() int64 { return max(h.Fetched, h.Tried) }
