// Package kv is what room store stands on: an ordered map of byte strings with
// transactions, in two makes that behave alike.
//
//	Open(dir)        badger, for peers that run: files, compaction, goroutines
//	Disk.Open()      memory, for simulations and tests: no goroutine, no clock
//	                 but time.Sleep, no file; and it fails when it is told to
//
// It knows nothing of what is kept. It imports no room.
//
// Files:
//
//	kv.go          Engine, Txn, Item, the errors; what is promised of both
//	badger.go      the one on badger
//	space.go       badger's writes are refused before the file system is full
//	trim_linux.go  gives back the memory of badger's mapped files
//	disk.go        Disk: what a process of memory leaves behind, and its faults
//	memory.go      the engine on a Disk
//	txn.go         its transactions
//	cursor.go      what they see, in order
//
// # What a Disk goes through
//
//	            Open                     Sync, Close
//	closed --------------> open ------------------------> all of it is synced
//	   ^                    |
//	   |   Close            | Kill   keeps all that was committed
//	   +--------------------+ Crash  what was synced and some of the commits
//	                          Lose   what was synced                   after
//	                          Wipe   nothing
//
// A process that was ended by one of the four finds every call refused with
// ErrClosed, those that were blocked by Pause included; its Disk can be opened
// again at once.
package kv
