// Package witness decides whether a peer may act as the owner that its leases name, and
// lets other peers take its subnets over if it may not. It combines failure detection
// with suspicion, indirect checks and refutation (as in SWIM): a witness that hears the
// owner refuses to vote against it.
//
// Each owner has one witness set (lease.WitnessSet) for all its subnets: four other
// peers, or two, or one in a network of two. So the cost depends on the number of peers,
// not of subnets.
//
// The owner sends heartbeats to its witnesses. While enough of them answer, it holds the
// quorum lease and may fetch ([Service.QuorumLease]). A witness that has answered does
// not vote against the owner for Config.Promise. A candidate for a takeover asks the
// witnesses for votes ([Service.RequestVotes]); enough votes are evidence for its lease,
// which it must publish within VoteWindow.
//
// Guarantees for an owner that knows two other live peers, if the rates of clocks differ by less
// than a quarter and witnesses keep their disks (of two peers both act after a cut of AloneAfter):
//
//   - At no time does an owner hold the quorum lease for a subnet for which a candidate
//     has the votes. Clocks need not agree.
//   - No two candidates have the votes for a subnet at the same time.
//   - Votes and witness sets are on disk before they are sent.
//   - An owner that returns is notified of votes before its quorum lease counts.
//
// The caller asks QuorumLease before each fetch, reads a lease from the DHT before it
// requests votes, and implements Node. A process that
// is stopped between QuorumLease and the fetch acts late. A witness that loses its disk
// also forgets which witness sets are old.
//
// docs/protocol/witness.md has the messages, the quorums, the argument for safety, and
// how a witness set changes. The package imports overlay/lease, overlay/wire, store (for
// OnDB) and libp2p's host.
package witness
