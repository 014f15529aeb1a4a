// Package store is the database of a peer. It holds everything that must survive the end
// of the process, and defines the records that are stored or sent to other peers: URL,
// Host, Entry, Pending, Page, Visit, Subnet and Outcome.
//
// All reads and writes happen in transactions (Tx). View runs a function in a read-only
// transaction, Update in a writing one; Batch combines the functions of concurrent callers
// into one transaction and one commit. A transaction is atomic: after a crash of the
// process, all of its changes are stored or none. A power failure may lose the last of what
// was committed after the last Sync, so a caller that acknowledges data to another peer must
// call Sync first. Methods that need several transactions, such as DropHost, say so; if
// they are interrupted, calling them again completes them.
//
// If less than 64 MiB of the disk are free, writes fail with ErrNoSpace and change nothing.
// They work again when there is free space.
//
// For each subnet that it owns, a peer can keep a change log, from which replicas copy the
// subnet: see StartLog, Tx.LogRecords, Tx.Snapshot and DB.Apply. The protocol is described
// in docs/protocol/store.md.
//
// The database below is package kv: badger, or memory for simulations and tests
// (Options.Disk). With a kv.Disk, a store can be used in a bubble of testing/synctest if
// it was opened there. Callers in a bubble must not hold a sync.Mutex across a call: the
// disk may be slow or paused, and virtual time does not pass while a goroutine waits for a
// mutex.
//
// Package store knows nothing of peers, connections or HTML, and imports no other layer.
package store
