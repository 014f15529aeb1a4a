// Package atlas is what a peer knows of the subnets that have been decided: who
// owns each, and where its servers stand (the proxy coordinate in the lease).
// Strategies look there for the neighbours of a subnet that is to be assigned
// (assign.Known).
//
// Owners announce their subnets by gossip, as the sealed leases that they have
// anyway, some in one message:
//
//	owner:  changed or new    at most one message a Gap
//	        all others        again and again, slowly: all peers together cost
//	                          each peer no more than RepeatRate
//	others: check, keep, pass on what is news
//
// What is not known here may exist all the same: nothing rests on the atlas, it
// is a hint. Who owns a subnet is what package lease says. Its memory is
// bounded; when it is full, what was not heard of for the longest time leaves.
// A new peer hears of what changes at once, and of all else within a round of
// repetitions; over a restart a Keeper keeps it.
//
// A lease takes some 300 bytes in a message, and 250 more when it carries a
// grant. A network in which nothing changes costs each peer at most RepeatRate,
// 32 bytes a second, times the copies that gossip makes: 9,000 subnets a day.
// What was not repeated for a week is forgotten.
//
// # What is refused
//
// A message is rejected (and its sender with it) if it is too long, malformed,
// badly signed, or tells of several owners at once. It is ignored if it tells
// nothing new: leases that are not better (lease.Better) than those known,
// repetitions that come too soon, more from one owner than owners say.
//
// Files:
//
//	atlas.go    Config, Atlas: Run, Known
//	table.go    the bounded table and its snapshots
//	message.go  the message and its checks
//	hear.go     what is taken from others
//	announce.go what is told, and when
//	keep.go     Keeper: what outlives a restart
//
// It imports coords, store and the sibling packages lease and wire. It opens no
// stream; the topic is joined over the PubSub handed in.
package atlas
