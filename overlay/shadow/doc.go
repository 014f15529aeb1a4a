// Package shadow keeps copies of a subnet at other peers, exact and up to date:
// by one mechanism, a snapshot plus the tail of the owner's log, for shadows
// that wait for their owner's death, for heirs (package handover) and for owners
// who have handed over and stay as shadow.
//
// A [Service] is both halves. As owner it has one stream to each peer that
// follows some of its subnets, with one sender and one receiver however many
// subnets that are; as replica it answers the stream of each owner. It owns the
// protocol and, on disk, the records of subnets in store.PhaseShadow with their
// places ("shadow/place/..." and "shadow/panel/..." among the data of room
// overlay). It does not decide who follows, or who becomes owner: that is the
// [Keeper]'s, which is owner.Manager. It may import store and package wire.
//
//	owner                                        replica
//	  Panel, Open{subnet, epoch, lease, log, base} -->  willing? room?
//	  <--  Have{ok, position, cursor | refused | stale | later}
//	  Snap{start, piece, next} ...               -->  applies, remembers where
//	  Snap{piece, until}                         -->
//	  Tail{log, records}  ...                    -->  applies, remembers where
//	  (beat, every 5 s; each frame: answers heard) -->
//	  <--  {frames taken, Acks{subnet, position, whole}}   after a Sync
//	  <--  Have{again | refused}                      ends what an Open began
//	  Close{subnet, drop}                        -->
//
// A follower at its owner's:
//
//	          Open         Have: nothing, or a cursor
//	idle ----------> opening ----------------------> walk <---+ the log was cut
//	 ^ ^                |  | Have: a position          | last |
//	 | |   no           v  v                           v piece|
//	 | +----- waiting <-+  +-------------------------> tail --+
//	 |  retry    ^                                     |
//	 |           +-------------------------------------+ refused
//	 +---- link down (from everywhere), "again", a new lease or panel
//
// A snapshot is a walk of the subnet in pieces, each from a view of its own, so
// that no view is long and no more than one piece is in memory; what has changed
// meanwhile is in the log, which is kept from where it was when the walk began. All
// pieces and then all records from there on make the owner's state: the copy is
// whole when it has the records up to Until, the log when the last piece was read.
// Piece, or record, and the place that the copy has reached with it, are one
// transaction at the replica; so whoever dies when, the next Have says where
// to go on. A replica whose log's continuation was cut begins with
// the snapshot again, over what it has.
//
// # A link that hangs
//
// A stopped process, or lost packets, look like a link that is up for tens of seconds. So
// the owner goes by what it is owed (pulse.go): Follower.Heard is when the replica last
// answered and owed nothing older. The replica goes by which of its answers the
// owner says it had then, and when it sent them itself: Held.Counted is never later than
// what the owner counts from, whatever lay in buffers. Every few seconds that is written
// down, for all copies of a link at once (remember.go), with how long the machine has
// been running, as clocks are set back: so a replica that was away knows for how long
// it was, unless the machine was restarted.
//
// # What may be relied on
//
//   - An Ack is of what is on the replica's disk, after a Sync.
//   - No replica is ahead of its owner's disk: the owner Syncs what it sends.
//   - A copy is Complete only if it was the owner's state at Pos.
//   - At a Base that the new log of a later owner names, a whole copy goes on
//     without a snapshot.
//   - Memory: on a link a window of 4 MiB that is not taken in, one frame at the
//     replica; a few hundred bytes a follower or copy, besides its lease.
//   - A Flush waits for two Syncs and what is in the window, of which pieces of
//     snapshots are a quarter: not for a snapshot.
//   - The log is trimmed to what all followers have. One that has failed for a
//     minute, or lags by Config.MaxLog records, holds nothing back.
//
// # What a liar can do
//
// An owner can send a copy what it likes of the subnet its lease names, if the
// Keeper accepts the lease. It cannot touch what is ours, nor a copy of another
// owner's at the same or a later epoch, nor hosts that are at home in either
// (store's Apply passes over the first and refuses the second); URLs pass
// Config.Check, records and clocks are checked and mended; all owners together,
// and each, are bounded in subnets, URLs and bytes (take.go). What is counted is an
// upper bound, made exact by a new snapshot. A replica can only hurt its own copy.
//
// Copies that are not complete are swept away when nobody was heard for
// Config.Sweep, those of an owner who is known to be beaten sooner.
//
// Files:
//
//	config.go   Config, Keeper, the errors
//	messages.go the frames
//	service.go  Service: New, Run; who has grown; Syncs that are shared
//	follower.go Follow, Unfollow, State, Flush; how far the log is needed
//	link.go     the owner's end of a stream
//	feed.go     what is sent next
//	read.go     what is sent, read from the store
//	heard.go    what replicas say
//	ask.go      which copies others keep
//	pulse.go    what is owed on a link, at both ends
//	remember.go the same over a restart of the replica
//	serve.go    the replica's end of a stream
//	accept.go   the answer to an Open, and whose matter each frame is
//	take.go     pieces and records, checked and stored
//	pin.go      copies that are about to be taken over
//	replica.go  Held, Promote, Forget, Demote; copies on disk
//	sweep.go    wiping what was forgotten
package shadow
