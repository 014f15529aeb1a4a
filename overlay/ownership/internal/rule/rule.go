// Package rule names the rules of package ownership, so that its tests can show what each
// of them is for. All rules are in force everywhere else.
package rule

// A Rule is one condition that the protocol needs.
type Rule uint8

// The rules. A comment says what holds while the rule is in force.
const (
	// Readers.

	ElectorsOnly Rule = iota // only electors' signatures count
	Majority                 // a certificate needs a majority of the electors
	StoreCounts              // an elector that has lost its disk counts only beside all others
	Descendant               // a peer yields only to a descendant of the lease that it knows

	// Electors.

	Silence       // no consent to a takeover within the promise to the owner
	SignSilence   // the same again when the lease is signed
	Restart       // no consent to a takeover within a promise after a restart
	NewStore      // a peer with a new disk does not sign as a neighbour
	Promised      // nothing is signed below a promised ballot
	Ascending     // a promise is only replaced by one of a higher ballot
	OneBallot     // a ballot is on disk before it is used; at each, an elector signs one lease
	Report        // a promise tells what was signed before
	Replica       // only a replica that the owner counts on takes over quickly
	NewestReplica // an older list of replicas does not replace a newer one
	SignerSaves   // what an elector signed is on disk before it is sent
	Notice        // the owner learns what was signed against it
	OwnerStore    // an owner that has lost its disk is not the owner that the lease names

	// Owners.

	FromSending // the right to fetch is counted from when the heartbeat was sent
	HoldShorter // the right ends before the promise
	Quorum      // enough witnesses must have answered
	AckStore    // answers of a witness that has lost its disk do not count
	Confirmed   // a change of the replicas counts when enough witnesses know it
	CopiesFirst // URLs are acknowledged when all replicas have them
	StopFirst   // the owner stops before it asks for the successor's certificate
	Flush       // it asks when the successor has everything
	Pending     // an owner that restarts does not act if a successor may have been signed
	CedeKeeps   // state is kept until the successor has confirmed
	Retry       // a proposal without enough answers is repeated at a higher ballot

	// Candidates.

	Adopts     // a candidate completes what was signed before
	AdoptSaves // a lease is on disk before anything is fetched under it

	Count // the number of rules
)

// A Set is a set of rules.
type Set uint64

// Of returns the set of the given rules.
func Of(rules ...Rule) (s Set) {
	for _, r := range rules {
		s |= 1 << r
	}
	return s
}

// Has reports whether r is in s.
func (s Set) Has(r Rule) bool { return s&(1<<r) != 0 }
