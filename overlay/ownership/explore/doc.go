// Package explore checks package ownership by visiting every state of a small model: two to
// four peers with their units, ledgers and quorums, a DHT of two replicas, messages that are
// lost, delayed or repeated, peers that crash between two actions, lose their disks or never
// come back, cuts in one or both directions, a witness that lies, and clocks that differ by a
// quarter. A [Scenario] bounds what can happen, and every choice within the bound is tried.
// Messages arrive in the order in which they were sent and before anything else happens; any
// other order is a delay, which counts as a fault. Only tests import the package.
//
// In every state it is checked that at most one peer may fetch, and none that has a certified
// successor; that this peer has all acknowledged URLs; that a lease has one certified
// successor; that no peer deletes what its successor lacks; that epochs do not fall; that a
// lease is saved before it is used; and that the transition is in the machine's table. One
// state in 64 is continued without faults until one peer owns the unit and all know that.
//
// States are told apart by a hash of 64 bits, as in hash compaction (Wolper and Leroy, 1993):
// with n states the chance that one is missed is about n²/2^65.
package explore
