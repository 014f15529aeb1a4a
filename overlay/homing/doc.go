// Package homing notices that hosts have moved to other subnets, and brings them
// there. It is the owner's side of it: a host stays in its home, whatever its name
// says in between. It is looked up again now and then while it has work, and at once
// when its server does not answer:
//
//	at home --no address in the home--> absent --long enough--> leaving --> arrived
//	   ^------any look-up shows one-------'        (frontier: out, in transit, in)
//
// Long enough is several look-ups over Pace.Span, four times that after each
// move; six times as long for a host that goes on answering, and never
// if our own resolver did not once show its home, for then it is geo-DNS. An address
// that changes within the home is dialled, and nothing else changes. depart.go
// draws how a host leaves; carry brings it to another owner.
//
// A Watch is one peer's. Of subnets it knows what Subnets tells it. It has a mutex of
// its own, which is never held during I/O or while it calls others, so that it may be
// called under any. On disk it keeps the intents of moves that are not done.
//
// The package may import store and its sibling packages home, lease and carry.
//
// Files: needs.go what it works with; watch.go the Watch and its loop; look.go
// looking hosts up, absence.go what is known of one that seems to have left; depart.go
// how a host leaves, arrive.go how one comes; rivals.go homes that two have settled;
// alive.go whether names can be looked up at all.
package homing
