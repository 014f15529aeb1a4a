// Package hosttransfer moves one host with everything that its owner knows about it -
// queue, URL-seen set, visits, robots.txt, state, politeness clock - to the owner of
// another subnet, because its addresses have left its home subnet.
//
//	owner O of the old home                  owner N of the new home
//	  Offer{host, home record n+1}  ------->   owned here? valid? prepares
//	  <-------  Reply{ok | refused | done}
//	  Chunk{robots, state, queue, seen, visits} ... -> stores each chunk
//	  Chunk{last}                   ------->   host record on disk: N owns it
//	  <-------  Reply{done}
//	  O: publishes the home record, deletes its copy
//
// O must have stopped fetching from the host and must not start again. An interrupted
// transfer is repeated; N answers "done" if it already has the host, when the replicas of its
// subnet have it, too. Until the last chunk N's copy is incomplete, and the next Offer or Sweep
// deletes it. If N has the host in another way, such as a rescue, what arrives is merged (Merge).
//
// N may be a replica of the old home. The copy is then as it was until all of the host is on
// N's disk: if O is lost on the way, N can continue the old home with the host in it. N refuses
// a host that it has in another subnet of its own, or in a copy of another owner's.
//
// A peer that loses a subnet uses the same conversation to tell the new owner which pages it has
// fetched, with an Offer of the lease that it has lost (TellFetched).
//
// The package may import store and its siblings home and wire. docs/protocol/hostmove.md
// describes the protocol.
package hosttransfer
