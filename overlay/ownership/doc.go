// Package ownership has the states of a subnet at the peer that owns it, and everything that
// changes them. It consists of pure functions on values: no clock, I/O, lock or randomness.
//
//   - [Unit.Step] is the machine: an event gives the next [Unit] and the actions to take.
//     [Table] lists its states and transitions; docs/protocol/ownership-machine.md has it.
//   - [Votes] is what an owner knows of the witnesses that have voted against it.
//
// Package owner keeps one Unit for each subnet of this peer, gives it the events, and does the
// actions. Nothing else changes the state of a subnet.
//
// Guarantees, whatever the order of events:
//
//   - A subnet is worked on only in Deciding, Owned and Copying, and without a [Doubt].
//   - A grant is signed only for a successor that was offered the subnet after work on it
//     had stopped, without a doubt, while the quorum lease held; it is saved before it is sent.
//   - A subnet that was granted returns only by a newer lease of this peer.
//   - A subnet with a better lease never returns.
//
// Callers do the actions in order, and what Save asks for before any other peer learns of the
// state. TestExplore of package witness tries all orders of events of three peers that run this
// machine, the witnesses of that package and the judge of package lease.
package ownership
