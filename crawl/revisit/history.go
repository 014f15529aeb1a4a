package revisit

import (
	"math"
	"time"
)

const (
	// maxEvidence is the number of visits after which all evidence is halved, because pages
	// change their behaviour and old visits must not outweigh new ones.
	maxEvidence = 64
	// answerMargin is the time in seconds before a visit within which a Last-Modified
	// counts as the time of the answer rather than of a change.
	answerMargin = 5
	// maxClockSkew is how many seconds a server's clock may be ahead before its change
	// dates count as wrong.
	maxClockSkew = 600
	// maxFailureCount is the maximum of the counters of failed visits.
	maxFailureCount = 1 << 10
)

// History summarises the visits to one page in about 60 to 130 bytes of CBOR. The zero
// value is a page that was never visited. Times are Unix seconds, or 0 for never. It may be
// copied, but is not safe for concurrent writes.
type History struct {
	Visits   uint32 `cbor:"1,keyasint,omitempty"` // visits that saw the page: 2xx or 304
	Changes  uint32 `cbor:"2,keyasint,omitempty"` // visits that found it changed
	Fetched  int64  `cbor:"3,keyasint,omitempty"` // last visit that saw the page
	Changed  int64  `cbor:"4,keyasint,omitempty"` // upper bound of the last known change
	Tried    int64  `cbor:"5,keyasint,omitempty"` // last visit, if it failed to see the page
	Failures uint16 `cbor:"6,keyasint,omitempty"` // consecutive failures
	Gone     uint16 `cbor:"7,keyasint,omitempty"` // answers 404 or 410 since the page was last seen

	ETag     string `cbor:"8,keyasint,omitempty"` // as sent, validated
	Modified int64  `cbor:"9,keyasint,omitempty"` // Last-Modified
	// Misdated is set once Last-Modified named a change that did not happen.
	Misdated bool `cbor:"10,keyasint,omitempty"`

	Digest [16]byte `cbor:"11,keyasint,omitzero"` // of the content last seen
	// Fingerprint is stored but not used here.
	Fingerprint uint64 `cbor:"12,keyasint,omitempty"`

	Evidence Evidence `cbor:"13,keyasint,omitzero"`

	Hinted int64  `cbor:"14,keyasint,omitempty"` // last change according to a sitemap
	Period uint32 `cbor:"15,keyasint,omitempty"` // seconds between changes according to a sitemap
	Right  uint8  `cbor:"16,keyasint,omitempty"` // right hints of a change
	Wrong  uint8  `cbor:"17,keyasint,omitempty"` // wrong hints of a change
	Site   Score  `cbor:"18,keyasint,omitzero"`  // of the site, as of the last hint
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
	Fingerprint  uint64
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
	modified := parseModified(o.LastModified, now)
	h.addEvidence(now, modified, changed)
	if !first {
		h.scoreHint(changed)
	}
	if o.Outcome == Fetched || o.Digest != [16]byte{} {
		h.Digest, h.Fingerprint = o.Digest, o.Fingerprint
	}
	h.keepValidators(o, modified)
	if changed {
		h.Changes++
	}
	if h.Visits < math.MaxUint32 {
		h.Visits++
	}
	h.Fetched, h.Tried, h.Failures, h.Gone = now, 0, 0, 0
	return changed
}

// addEvidence adds what a visit says about the rate of change.
func (h *History) addEvidence(now, modified int64, changed bool) {
	if h.Fetched == 0 {
		h.Changed = modified
		if modified != 0 && modified <= now-answerMargin {
			h.Evidence.dated(0, float64(now-modified)) // unchanged since
		}
		return
	}
	interval := now - h.Fetched
	if interval <= 0 {
		return
	}
	e := &h.Evidence
	switch {
	case !changed && modified > h.Fetched+maxClockSkew && !h.Misdated:
		// This date is not the time of a change, so the earlier ones are not reliable
		// either.
		h.Misdated, *e = true, Evidence{}
		e.same(float64(interval))
	case !changed:
		e.same(float64(interval))
	case !h.Misdated && modified > h.Fetched && modified <= now-answerMargin:
		h.Changed = modified
		e.dated(float64(interval), float64(now-modified))
	default:
		h.Changed = now
		e.undated(float64(interval))
	}
	if e.visits() > maxEvidence {
		e.halve()
	}
}

// lastVisit returns the time of the last visit of any outcome.
func (h *History) lastVisit() int64 { return max(h.Fetched, h.Tried) }
