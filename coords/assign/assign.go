// Package assign decides which peer crawls a subnet.
//
// A [Strategy] is a pure decision: evidence in, one [Step] out, which is either
// "let this peer download one page, then ask again" or "this peer". It talks to
// nobody and keeps nothing between calls, so that the same code runs live and
// in a test, and probes are counted alike. All strategies hold to the
// conformance suite in assigntest.
//
// The package imports coords and the standard library, with the same
// restrictions as coords.
//
// # Files
//
//	assign.go   Strategy and what goes in and out
//	evidence.go checks of the evidence
//	proxy.go    ProxyStrategy: measure actively, choose the fastest
//	options.go  what the samples say of each candidate of a ProxyStrategy
//	random.go   RandomStrategy: any peer
//	hash.go     HashStrategy: consistent hashing
//	keep.go     KeepStrategy: whoever found it
//	score.go    the hash behind every tie and ring
package assign

import (
	"net/netip"
	"time"

	"peerd/coords"
)

// Strategy decides on owners.
type Strategy interface {
	// Name is the word by which operators choose it.
	Name() string
	// Next returns the next step. It is deterministic for equal evidence (the
	// order of the candidates does not count) and safe for concurrent use; it
	// neither changes nor keeps the evidence. If every probe that it asks for
	// leads to a new sample or a new exclusion, it comes to a choice. The errors
	// wrap ErrEvidence or ErrNoCandidate.
	Next(Evidence) (Step, error)
}

// Candidate is a peer that could own the subnet.
type Candidate struct {
	// ID is its name. Not empty, unique.
	ID string
	// At is its coordinate without load (coords.Estimator.Coordinate): the load
	// comes in by Wait.
	At coords.Coordinate
	// Wait is what a new page would wait there before it is fetched. >= 0.
	Wait time.Duration
	// Capacity is how much it can take compared to others. >= 0, 0 counts as 1.
	Capacity float64
}

// Evidence is what a decision rests on.
type Evidence struct {
	// Subnet is what is to be assigned.
	Subnet netip.Prefix
	// Self is the peer that decides, the present owner. One of the candidates.
	Self string
	// Candidates are the peers to choose from, Self among them.
	Candidates []Candidate
	// Samples are all downloads from the subnet so far, oldest first, also those
	// of peers that are no candidates. Malformed ones are passed over.
	Samples []coords.Sample
	// Exclude holds candidates that did not answer when asked: they are neither
	// probed nor chosen.
	Exclude map[string]bool
	// CanProbe is false when there is no page left to probe with: a choice must
	// be made now.
	CanProbe bool
}

// Step is a decision. Exactly one of Probe and Choice is set.
type Step struct {
	// Probe is the peer that should download one page from the subnet next.
	Probe string
	// Choice is the peer that should own the subnet.
	Choice string
	// Proxy is where the subnet's servers stand, when the strategy knows.
	Proxy *coords.Proxy
	// Predicted is the expected time of a typical page by candidate, waiting
	// time left out; candidates of which nothing is known are missing.
	Predicted map[string]time.Duration
}
