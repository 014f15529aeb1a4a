// Package handover moves a subnet with everything its owner knows about it -
// hosts, queue, URL-seen, visits, robots.txt, politeness clock, samples - to its next
// owner. It owns the protocol and the order of the steps; it may import store
// and its sibling packages lease and wire.
//
//	owner O (epoch n)                         heir N
//	  Offer{subnet, n+1}       ------------>   ready? makes room
//	  <------------  Reply{ok | refused | done+lease}
//	  Chunk{host, robots, state, queue, seen, visits} ... -> stores as it comes
//	  End                      ------------>
//	  <------------  Prepared{what is there: O compares}
//	  O: "committing to N" on disk, from here on never O's again
//	  Commit{grant signed by O} ----------->   N: lease n+1 on disk, from here on N's
//	  <------------  Done{lease}
//	  O: forgets its copy
//
// Wherever it breaks before Commit, the subnet stays O's and N's copy is
// rubbish that is swept away. Broken after it, O asks again until
// N answers: "done", or takes the snapshot once more. At no moment do two
// peers hold the subnet, and at every moment at least one has all of it.
//
// A subnet is received over one stream at a time. What a broken one has left is
// swept away at once, by the next Offer, or at the next start (Sweep).
//
// Files: messages.go the frames; send.go O's side; receive.go N's side,
// intake.go its chunks, stage.go what is kept of a subnet before it is N's.
package handover
