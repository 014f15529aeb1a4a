// Package ownership decides who owns a unit: a subnet, or a host that is owned by itself. It
// consists of pure functions on values, without clock, I/O, lock or randomness. The package
// that runs them is not written yet.
//
//   - [Rules.Step] is the machine of one unit at one peer: an event gives the next [Unit] and
//     the actions to take. [Table] lists its states and transitions.
//   - [Rules.Answer] is the rule of an elector, a peer that may sign who owns a unit next:
//     a request gives the next [Ledger] and the reply.
//   - [Rules.Holds] says whether an owner's witnesses let it act at a time.
//   - [Rules.Read] says whether a [Record] proves who succeeded the owner that a reader knows.
//
// A lease names the one before it and the witnesses that decide on the one after it. Each
// step above epoch 1 needs a certificate, signatures of a majority of them, no matter whether
// the owner wants the step. The electors of one step run single-decree Paxos (Lamport, Paxos
// Made Simple, 2001): a lease has at most one successor with a certificate, however many
// peers propose one. Ballot 0 belongs to the owner and needs one round.
//
// Guarantees, if the rates of clocks differ by less than a quarter, processes act at once on
// what MayFetch says, and fewer than a majority of a lease's electors lie or lose their disks:
//
//   - No two peers may fetch in one unit at the same time.
//   - A peer that may fetch has every acknowledged URL, unless the unit was recreated.
//   - A peer keeps its state until its successor has confirmed that it has it.
//   - An owner yields only to a proven descendant of its own lease.
//
// In a network of two both peers may act after [AloneAfter] without each other. The peers
// nearest to an owner's key, which replace it when it is lost with its witnesses, do not see
// what these signed before; see docs/protocol/ownership-machine.md.
//
// The caller does actions in order; a Save ends before what follows it begins. It saves a
// Ledger before it sends the reply, handles a reply by Step before it counts it, and asks
// MayFetch before each request. Package explore tries every choice of up to four peers within
// a bound of faults, also with each rule switched off.
package ownership
