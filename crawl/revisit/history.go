package revisit

import (
	"math"
	"time"
)

const (
	// memory is how many visits the evidence holds before all of it is halved:
	// pages change their ways, and old visits must not outvote new ones.
	memory = 64
	// answered is how close before the visit a Last-Modified is taken for the
	// time of the answer, not of a change. In seconds.
	answered = 5
	// skew is how far a server's clock may be ahead before its dates of change
	// count as wrong. In seconds.
	skew = 600
	// maxCount is where the counters of failed visits stop.
	maxCount = 1 << 10
)

// History is what is kept of the visits to one page: some 60 to 130 bytes as
// CBOR. The zero value is a page that was never visited. Times are Unix
// seconds, 0 for never. It is safe to copy, not for concurrent writes.
type History struct {
	Visits   uint32 `cbor:"1,keyasint,omitempty"` // that saw the page: 2xx or 304
	Changes  uint32 `cbor:"2,keyasint,omitempty"` // visits that found it changed
	Fetched  int64  `cbor:"3,keyasint,omitempty"` // last visit that saw the page
	Changed  int64  `cbor:"4,keyasint,omitempty"` // last change known, at the latest
	Tried    int64  `cbor:"5,keyasint,omitempty"` // last visit, if it failed to see the page
	Failures uint16 `cbor:"6,keyasint,omitempty"` // in a row
	Gone     uint16 `cbor:"7,keyasint,omitempty"` // answers 404 or 410 since the page was last seen

	ETag     string `cbor:"8,keyasint,omitempty"` // as sent, checked
	Modified int64  `cbor:"9,keyasint,omitempty"` // Last-Modified
	// Misdated: Last-Modified was caught naming a change where none was.
	Misdated bool `cbor:"10,keyasint,omitempty"`

	Digest      [16]byte `cbor:"11,keyasint,omitzero"`  // of the content last seen
	Fingerprint uint64   `cbor:"12,keyasint,omitempty"` // for near-duplicates; carried, not used here

	Evidence Evidence `cbor:"13,keyasint,omitzero"`

	Hinted int64  `cbor:"14,keyasint,omitempty"` // last change, by a sitemap
	Period uint32 `cbor:"15,keyasint,omitempty"` // between changes, by a sitemap; in seconds
	Right  uint8  `cbor:"16,keyasint,omitempty"` // hints of a change that came true
	Wrong  uint8  `cbor:"17,keyasint,omitempty"` // and those that did not
}

// Outcome says how a visit ended.
type Outcome uint8

// The outcomes of a visit.
const (
	Fetched     Outcome = iota // 2xx with content; whether it changed is told by its digest
	NotModified                // 304, or content that counts as the same
	Failed                     // no answer, or one that says nothing of the page (5xx, 429, ...)
	Gone                       // 404 or 410
)

// Observation is what one visit showed.
type Observation struct {
	Outcome      Outcome
	ETag         string   // header fields as received; unusable ones are dropped
	LastModified string   //
	Digest       [16]byte // of the content; of Fetched, and of NotModified if there was content
	Fingerprint  uint64
}

// Observe adds a visit and says whether it found the page changed. The first
// content is no change. Visits have to come in order of time; the interval of
// one that does not counts for nothing.
func (h *History) Observe(at time.Time, o Observation) (changed bool) {
	now := at.Unix()
	switch o.Outcome {
	case Failed:
		h.Tried = now
		h.Failures = min(h.Failures+1, maxCount)
		return false
	case Gone:
		h.Tried, h.Failures = now, 0
		h.Gone = min(h.Gone+1, maxCount)
		return false
	}
	first := h.Fetched == 0
	changed = !first && o.Outcome == Fetched && o.Digest != h.Digest
	modified := parseModified(o.LastModified, now)
	h.weigh(now, modified, changed)
	if !first {
		h.judge(changed)
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

// weigh adds what a visit says of the rate of change.
func (h *History) weigh(now, modified int64, changed bool) {
	if h.Fetched == 0 {
		h.Changed = modified
		if modified != 0 && modified <= now-answered {
			h.Evidence.dated(0, float64(now-modified)) // quiet since
		}
		return
	}
	interval := now - h.Fetched
	if interval <= 0 {
		return
	}
	e := &h.Evidence
	switch {
	case !changed && modified > h.Fetched+skew && !h.Misdated:
		// Whatever this date is, it is not the time of a change, and neither
		// were the others.
		h.Misdated, *e = true, Evidence{}
		e.same(float64(interval))
	case !changed:
		e.same(float64(interval))
	case !h.Misdated && modified > h.Fetched && modified <= now-answered:
		h.Changed = modified
		e.dated(float64(interval), float64(now-modified))
	default:
		h.Changed = now
		e.undated(float64(interval))
	}
	if e.visits() > memory {
		e.halve()
	}
}

// lastVisit is the time of the last visit of any outcome.
func (h *History) lastVisit() int64 { return max(h.Fetched, h.Tried) }
