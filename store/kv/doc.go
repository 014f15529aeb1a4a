// Package kv provides the ordered key-value store with transactions below package store,
// in two implementations with the same behaviour:
//
//	Open(dir)    badger, for real peers: files, compaction, goroutines
//	Disk.Open()  memory, for simulations and tests: no goroutines, no files, no
//	             clock except time.Sleep; it simulates failures on request
//
// It does not interpret keys and values.
//
// # States of a Disk
//
//	            Open                     Sync, Close
//	closed --------------> open ------------------------> all commits are synced
//	   ^                    |
//	   |   Close            | Kill   keeps all commits
//	   +--------------------+ Crash  keeps synced data and some of the later commits
//	                          Wipe   keeps nothing
//
// After one of the last three, all calls of the process return ErrClosed, including those
// that Pause had blocked. The Disk can be opened again at once.
package kv
