// Package handover moves a subnet with everything its owner knows about it -
// hosts, queue, URL-seen, visits, robots.txt, politeness clock, out-links,
// samples - to its next owner. It owns the protocol and the order of the steps;
// it may import store and its sibling packages shadow and wire. That the heir has
// the state is the business of package shadow: it follows like any shadow.
//
//	owner O (epoch n)                         heir N
//	  (N follows, until it is in sync; O goes on crawling)
//	  (O pauses the subnet, and flushes N)
//	  Offer{subnet, n+1, pos}  ------------>   willing? is my copy at pos?
//	  <------------  Reply{prepared | behind | refused | done+lease}
//	  O: "committing to N" on disk, from here on never O's again
//	  Commit{grant signed by O} ----------->   N: copy still at pos? lease n+1
//	                                           on disk, from here on N's
//	  <------------  Done{lease}
//	  O: keeps its copy as a shadow at pos, or forgets it
//
// Wherever it breaks before Commit, the subnet stays O's and N's copy is a
// shadow's, which O ends. Broken after it, O asks again until N answers: "done",
// or, if it has nothing, is behind and becomes a follower again. At no moment do two
// peers hold the subnet, and at every moment at least one has all of it.
//
// N's log continues O's: its base is pos. So O, whose own state is that of pos,
// can be N's shadow from then on without a snapshot (shadow.Service.Demote), and so
// can the other shadows of O that are there.
//
// Files: messages.go the frames; send.go O's side; receive.go N's side.
package handover
