// Package events writes and reads the event log of a peer: what happened in it, as JSON lines,
// for experiments. docs/events.md describes the file.
//
// A [Log] belongs to one run of a peer. [Log.Add] never waits for the disk: lines are collected in
// memory and written at least once a second, so that a process that is killed loses at most the
// last second. A [Reader] skips what it cannot read, such as a line that was cut off.
//
// Times of a log are those of the system clock at the start of the run, plus the time since by the
// monotonic clock. A change of the system clock during the run does not show, which makes the
// logs of several peers comparable: see lab/events.
//
// A log grows up to a limit and then ends. Kinds of events and fields may be added within a
// version of the schema; readers ignore those that they do not know.
//
// The package knows nothing about the other parts of a peer; package node fills the log.
//
// Files: event.go the kinds of events; log.go Log; read.go Reader.
package events
