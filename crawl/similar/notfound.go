package similar

import (
	"crypto/sha256"

	"peerd/store"
)

// Match says how a page compares with the answer to a URL that somebody made
// up.
type Match uint8

// The matches.
const (
	MatchUnknown Match = iota // nobody asked, or the answer was an honest error
	MatchNone
	MatchNear  // Prints differ in at most Near bits
	MatchExact // equal Digests
)

// Signals is what speaks for a page being no page.
type Signals struct {
	// Status is the HTTP status of the page.
	Status int
	// First says that no page of the host with the same or nearly the same
	// body came before: it stays, whatever it is. So does the page of "/".
	First bool
	// Probe compares the page with the answer to ProbeURL, if its status was
	// 200.
	Probe Match
	// Copies is the number of pages of the host with the same or nearly the
	// same body, this one included.
	Copies int
	// Phrase says that the title, or a short text, says "not found"; see
	// SaysNotFound.
	Phrase bool
}

// manyCopies is the number of copies from which they count as a signal.
const manyCopies = 5

// SoftNotFound says whether a page that came with status 200 is its server's
// way to say that there is none (Bar-Yossef, Broder, Kumar, Tomkins 2004: "soft
// 404", found by asking for what cannot exist). An exact match with the probe
// is enough; a near match, many copies, and a phrase are each half the proof.
// Copies alone are not: pages that say the same are still pages.
func SoftNotFound(s Signals) bool {
	if s.Status != 200 || s.First {
		return false
	}
	proof := 0
	switch s.Probe {
	case MatchExact:
		proof = 2
	case MatchNear:
		proof = 1
	}
	if s.Copies >= manyCopies {
		proof++
	}
	if s.Phrase {
		proof++
	}
	return proof >= 2
}

// ProbeURL returns a URL of origin (as store.URL.Origin) that does not exist
// unless everything does there: twenty letters, always the same for an origin.
func ProbeURL(origin string) store.URL {
	sum := sha256.Sum256([]byte("not found " + origin))
	b := make([]byte, 20)
	for i := range b {
		b[i] = 'a' + sum[i]%26
	}
	return store.URL(origin + "/" + string(b))
}
