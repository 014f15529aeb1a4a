// Package assign decides which peer crawls a subnet.
//
// A [Strategy] maps [Evidence] to one [Step]: "let this peer make a measurement, then
// ask again" or "choose this peer". It is a pure function: it communicates with no peer
// and keeps no state between calls, so that the same code runs in a live network and in
// a test, and probes are counted alike. Package assigntest is the conformance suite of
// all strategies. A [Reviewer] also decides whether a subnet that has an owner should
// move.
//
//	proxy               measures some candidates and predicts the others
//	probe, sequential   let all candidates probe, or until one is near
//	himicra             searches a hierarchy of candidates (hierarchy.go)
//	ipmicra             searches a hierarchy of prefixes (subnets.go)
//	ipmicra-proxy       the same with predicted times
//	geo, hash, random   choose without a probe
//	keep                leaves each subnet with the peer that found it
//
// The package imports coords, coords/registry and the standard library, with the same
// restrictions as coords. docs/protocol/coordinates.md describes the strategies and
// their constants.
package assign

import (
	"iter"
	"net/netip"
	"time"

	"peerd/coords"
)

// Strategy chooses the owner of a subnet.
type Strategy interface {
	// Name returns the name by which operators select the strategy.
	Name() string
	// Next returns the next step. It is deterministic for equal evidence, whatever the order
	// of the candidates, and safe for concurrent use; it neither changes nor keeps the
	// evidence. If every probe that it asks for leads to a new sample or a new exclusion, it
	// eventually makes a choice. The errors wrap ErrEvidence or ErrNoCandidate.
	Next(Evidence) (Step, error)
}

// Candidate is a peer that could own the subnet.
type Candidate struct {
	// ID is the name of the peer. Not empty, unique.
	ID string
	// At is its coordinate without load (coords.Estimator.Coordinate): the load is in Wait.
	At coords.Coordinate
	// Place says whether the deciding peer's own measurements agree with At
	// (coords.Estimator.Judge).
	Place coords.Standing
	// Wait is the time that a new page would wait there before it is fetched. >= 0.
	Wait time.Duration
	// Capacity is the peer's capacity relative to other peers. >= 0; HashStrategy treats 0,
	// not known, as 1.
	Capacity float64
	// Traits are what the peer has learned about its own download times (coords.Learner). Nil:
	// nothing yet.
	Traits *coords.Traits
	// Addr is an address of the peer, for strategies that use the registries' prefixes or
	// geography. Invalid: not known.
	Addr netip.Addr
}

// Delegation is a subnet that has been decided, as far as another peer knows.
type Delegation struct {
	Subnet netip.Prefix
	Owner  string
	// Proxy predicts times from there; nil if not known.
	Proxy *coords.Proxy
	// Probes holds the times that peers needed for a typical page of the subnet. Nil: none
	// is known.
	Probes map[string]time.Duration
}

// Delegations is what a peer knows of decided subnets, its own and those of other peers.
// It must not change while a call of Next that uses it runs.
type Delegations interface {
	// Within yields the delegations inside p, including p itself, in the order of their
	// prefixes.
	Within(p netip.Prefix) iter.Seq[Delegation]
}

// Evidence is the input of a decision.
type Evidence struct {
	// Subnet is the subnet to assign.
	Subnet netip.Prefix
	// Self is the peer that decides, the current owner. It is one of the candidates.
	Self string
	// Candidates are the peers to choose from, including Self.
	Candidates []Candidate
	// Samples are all downloads from the subnet so far, oldest first, including those of
	// peers that are not candidates. Malformed samples are ignored.
	Samples []coords.Sample
	// Exclude holds candidates that did not answer when asked. They are neither probed nor
	// chosen.
	Exclude map[string]bool
	// CanProbe is false when there is no page left for a probe: a choice must be made now.
	CanProbe bool
	// Now is the time by the clock of Sample.Taken. Zero: ages are not used.
	Now time.Time
	// Delegations is what is known of other subnets. Nil: nothing.
	Delegations Delegations
}

// Via is the way in which a probe is made.
type Via int

const (
	// ViaPage downloads one page that has to be crawled anyway, at no extra cost for the
	// server.
	ViaPage Via = iota
	// ViaConnect opens and closes a connection. This is an extra request to the server and
	// is counted as one. The sample has no first byte, body or size.
	ViaConnect
)

// Step is the result of Next. Exactly one of Probe and Choice is set.
type Step struct {
	// Probe is the peer that should measure the subnet next, and Via the way.
	Probe string
	Via   Via
	// Choice is the peer that should own the subnet.
	Choice string
	// Proxy predicts times from the subnet's servers; nil if not known.
	Proxy *coords.Proxy
	// Predicted is the expected time of a typical page for each candidate, without waiting
	// time. Candidates about which nothing is known are missing.
	Predicted map[string]time.Duration
	// Range holds the ends of the 80 % interval of the true time for those candidates, for
	// strategies that know it, if there is a Choice.
	Range map[string][2]time.Duration
}
