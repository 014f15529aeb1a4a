// Package hostmove decides that a host has left its home subnet, and moves it to the
// owner of another one. A host stays in its home whatever its name resolves to in
// between; it is looked up again from time to time while it has work, and at once when
// its server does not answer.
//
//	at home --no address in the home, or--> absent --long enough--> leaving --> arrived
//	   ^      only one elsewhere answers      |      (frontier: out, in transit, in)
//	   '------one there, and it answers-------'
//
// A [Monitor] belongs to one peer. It guarantees that no peer fetches from a host while
// it moves, and that a move that was decided is repeated after a restart until it has
// ended: its intent is on disk. Package hosttransfer sends the host's state.
//
// The caller provides the peer's subnets ([Subnets]), the frontier ([Frontier], set by
// Attach before Run) and a [Transferrer]. The Monitor never holds its mutex during I/O
// or while it calls others, so that it may be called under any lock.
//
// The package may import store and its sibling packages home, lease and hosttransfer.
// docs/protocol/hostmove.md describes when and how hosts move.
package hostmove
