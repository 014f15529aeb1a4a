// Package witness says whether a peer may act as the owner that its leases name,
// and lets others take its subnets over when it may not. It is failure detection
// with suspicion, indirect check and refutation (as SWIM has them) in one: whoever
// hears the owner refuses to vote against it.
//
// Each owner O has one panel of witnesses for all its subnets (lease.Panel): four other
// peers, or two, or none in a network of less than three. So the cost is one of pairs of
// peers, and the same for one subnet as for 50,000.
//
//	O                            witness W                      candidate C
//	|-- beat (panel, seen) ---------->|                               |
//	|                    from here W votes not against O              |
//	|                            for Promise (20 s)                   |
//	|<--------- ack (known, notices) -|                               |
//	counts for Hold (15 s) from when the beat was sent                |
//	:                                 :                               |
//	: (O is silent)                   |<------ ask (panel, steps) ----|
//	                    promise over? newest panel? up for            |
//	                    Promise? no other candidate? then to disk     |
//	                                  |-- votes, sealed ------------->|
//	:                                 :           enough: lease.TakeOver within
//	: (O is back)                     :           VoteWindow (30 s) of asking
//	|-- beat ------------------------>|
//	|<---- ack, with a notice of it --|
//	stops there, then counts the ack
//	|-- beat (seen: that notice) ---->| told no more
//
// n is the number of witnesses and O, q = n/2+1:
//
//	                                        n = 1   3   5
//	votes of witnesses to take over, q          -   2   3
//	acks to keep the right, n-q                 0   1   2
//
// # Why no two may act at once
//
// The acks that give O its right and the votes that end it are n together, one more
// than there are witnesses: some W gave both. If W voted after O's beat came, then
// Promise later, when Hold had long ended for O: it began earlier and is shorter, and
// rates of clocks differ by less than a quarter. If W voted before, its ack says so,
// and O stops for that subnet before it counts the ack. What clocks show plays no
// part. Of two candidates, too, some W would have voted for both, which it does
// not within VoteLife; the first one's window has ended then, and its lease, if it
// made one, is in the DHT, where the second reads before it asks.
//
// A witness that restarts has forgotten its promises: it gives no vote for Promise; its
// votes and the panels that it knows are on its disk. One whose disk is empty may have
// lost votes: it gives none for ReviveAfter, when these have been used, if ever. O's own clock may stand still (a machine that
// sleeps) or be set: of its two clocks the one counts that says more time has passed.
//
// A notice is repeated until O has said that it came, for as long as the lease could
// count (Forget); the vote binds the witness to one candidate for VoteLife only. An O that
// was told and, ReviveAfter later, finds no better lease in the DHT may go on.
//
// A candidate that gets too few votes gives them back, so that split votes do not bind
// the witnesses: by the name of that asking, as one that is late must not undo
// another, and not if votes of an earlier one may still be in use.
//
// A candidate that was no shadow of the owner has not its panel: it asks those who may
// be witnesses by rendezvous hashing (show.go), once a try. Who shows an old panel
// costs a round, as its members know the newer one.
//
// # How a panel changes
//
// A panel k+1 is made when a witness has been silent for Gone, or there can be more. Its
// new members have answered beats before, so that O's right holds under it from the
// start. While votes under k could still be enough, O needs the acks of both:
//
//	in force: k ----> k, k+1 ----------------------------------> k+1
//	            |       n-q members of k have k+1 on their disk:
//	            |       they refuse votes under k, the others are too few
//	            sealed, on O's disk, then shown
//
// Witnesses of k that are silent for lease.LongSilence count as if they knew, so that an O
// whose witnesses died all at once is not idle for ever. What they voted for, if they
// live elsewhere, is not known: Config.Doubt says so, and every lease has to be read again.
//
// # What does not hold
//
// A process that is stopped between asking for the right, or the window's end, and
// acting on it acts late, by as long as it was stopped. A witness that loses its disk
// also forgets which panels are old: who shows it an old one may get its vote. A peer
// that lies, as owner, witness or candidate, is bound by what others sign only.
//
// # Cost
//
// Beat and ack have about 40 bytes together, some 250 on the wire with all that
// carries them; 720 an hour for each witness. With four: 0.7 MB an hour and peer, and as
// much for being a witness. TestTraffic prints it, and what renewing leases costs.
//
// The package imports overlay/lease, overlay/wire, store (for OnDB) and libp2p's host.
//
// Files:
//
//	config.go    Config, the times, Store, Revocation
//	service.go   Service: Run, Right, Panel, Heard
//	talk.go      heartbeats: sent, answered, their notices told
//	panels.go    a new panel, from the disk to the witnesses
//	ask.go       Ask and its Tally
//	vote.go      the answers to it, Settled
//	show.go      PanelOf: the panel of another owner
//	holder.go    the owner's half: acks, panels in force, the right
//	choose.go    who should be a witness
//	guard.go     the witness's half: promises and votes
//	messages.go  what is said, and its checks
//	link.go      how it is said, over libp2p
//	kept.go      what is on the disk, and how it is read
//	writer.go    writes to the disk, one for many
//	store.go     OnDB
package witness
