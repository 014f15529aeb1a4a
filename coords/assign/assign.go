// Package assign decides which peer crawls a subnet.
//
// A [Strategy] is a pure decision: evidence in, one [Step] out, which is either
// "let this peer download one page, then ask again" or "this peer". It talks to
// nobody and keeps nothing between calls, so that the same code runs live and
// in a test, and probes are counted alike. All strategies hold to the
// conformance suite in assigntest.
//
// The package imports coords, coords/registry and the standard library, with the
// same restrictions as coords.
//
// # Files
//
//	assign.go   Strategy and what goes in and out
//	evidence.go checks of the evidence
//	review.go   Reviewer: whether a decided subnet should move
//	review_track.go     what the last downloads of each peer say
//	review_duel.go      whether one peer is better than another: pages of the same time
//	review_patience.go  Patience: for how long, and confirmed how
//	review_watch.go     Watch: a decided subnet's reviews and scouts
//	proxy.go    ProxyStrategy: measure actively, choose the fastest
//	options.go  what the samples say of each candidate of a ProxyStrategy
//	geo.go      GeoStrategy: the nearest on the globe
//	threshold.go what the strategies of Papapetrou have in common
//	sequential.go ProbeStrategy: everybody probes; SequentialStrategy: until one is near
//	himicra.go  HiMicraStrategy: a hierarchy of peers (hierarchy.go), best first
//	ipmicra.go  IPMicraStrategy: a hierarchy of prefixes (subnets.go), bottom up
//	neighbours.go, ipmicra_proxy.go IPMicraProxyStrategy: the same with predicted times
//	calibrate.go when a subnet became slow; release.go what an overloaded peer gives away
//	factors.go  the same by traits, and whom to ask next by them
//	random.go   RandomStrategy: any peer
//	hash.go     HashStrategy: consistent hashing
//	keep.go     KeepStrategy: whoever found it
//	score.go    the hash behind every tie and ring
package assign

import (
	"iter"
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
	// Traits is what it has learned of itself as a downloader, beyond its place
	// (coords.Traits). Nil: nothing yet.
	Traits coords.Traits
	// Addr is an address that it is reached at, for strategies that go by the
	// registries' prefixes or by geography. Invalid: unknown.
	Addr netip.Addr
}

// Delegation is what a peer knows of another subnet that has been decided.
type Delegation struct {
	Subnet netip.Prefix
	Owner  string
	// Proxy predicts times from there; nil if it is not known.
	Proxy *coords.Proxy
	// Probes is what peers needed for a typical page of it, where that is known.
	// Nil: not known of anybody.
	Probes map[string]time.Duration
}

// Known is what a peer knows of decided subnets, its own and others'. It does
// not change while a Next that was given it runs.
type Known interface {
	// Within yields the delegations inside p (p itself among them), in the order
	// of their prefixes.
	Within(p netip.Prefix) iter.Seq[Delegation]
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
	// Now is the time by the clock of Sample.Taken. Zero: ages do not count.
	Now time.Time
	// Known is what is known of other subnets. Nil: nothing.
	Known Known
}

// Via is how a probe is made.
type Via int

const (
	// ViaPage downloads one page that has to be crawled anyway: it costs the
	// server nothing extra.
	ViaPage Via = iota
	// ViaConnect opens a connection and closes it again, which is an extra
	// request to the server and is counted as one. The sample has no first byte,
	// no body and no bytes.
	ViaConnect
)

// Step is a decision. Exactly one of Probe and Choice is set.
type Step struct {
	// Probe is the peer that should measure the subnet next, and Via how.
	Probe string
	Via   Via
	// Choice is the peer that should own the subnet.
	Choice string
	// Proxy is where the subnet's servers stand, when the strategy knows.
	Proxy *coords.Proxy
	// Predicted is the expected time of a typical page by candidate, waiting
	// time left out; candidates of which nothing is known are missing.
	Predicted map[string]time.Duration
}
