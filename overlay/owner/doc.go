// Package owner decides which peer owns a subnet, and acts on it. It holds
// this peer's subnets and takes each through its life:
//
//	            Claim                 Strategy: me
//	(unowned) --------> estimating ----------------> owned <--+ reviews, scouts
//	                        |  Strategy: another peer  | | |---+
//	                        |      another is nearer   | | a better lease is met
//	                        v      for long enough     | v
//	                    leaving <----------------------+ yielding
//	                        +------- handover ---> (another's, owned)
//
// It runs an assign.Strategy over what it knows (evidence) and answers the
// crawler's "who fetches next here?". While a subnet is being estimated, one
// request at a time goes there, each to the peer that the strategy names.
//
// A subnet that is owned is reviewed every few seconds while pages come from it,
// if the strategy is an assign.Reviewer: its owner's own pages and those of a
// scout now and then, about one page in fifty, say whether another peer has
// become clearly nearer (assign.Watch). Then it leaves as one that was decided
// so, with its samples, and rests at its new owner for a while. A scout is an
// estimation: one at a time in a subnet, a page that has to be fetched anyway,
// and the address is held for it like for a page of our own.
//
// # Shadows, and an owner that vanishes
//
// Each subnet of ours is followed by Config.Shadows other peers (shadows.go: near it,
// not at addresses of our holder by the registries' data, or else not of our network,
// spread; another when one is out of reach, or owes an answer, for Times.Lost). What a
// batch brings is acknowledged when they have it on their disks (Safe). At a
// shadow:
//
//	                    owner silent for Times.Silence, for everybody we know of
//	copy, complete ------------------------------------------> whose? (DHT)
//	  ^   ^   ^                                     ours already |   | still its owner's
//	  |   |   '--- another's: nothing ---------------------------+   v
//	  |   '------ too few votes, or someone hears it: later ----- ask its panel
//	  |                                                              | enough votes
//	  |          not within witness.VoteWindow: later                v
//	  '---------------------------------------------------- lease n+1 into the DHT
//	                                                                 | it stands
//	   links that were not delivered put aside, new log on the old   v
//	   one's position, state on the disk ---------------------> estimating, owned
//
// If nobody has a copy, as the owner was lost before there was a complete one, or its
// shadows with it, then nobody acknowledged what others have for it: it waits in their
// outboxes. They begin the subnet anew (orphans.go):
//
//	                 owner does not answer us      silent for Times.Anew, for all
//	URLs wait here ------------------------> orphan ----------------> ask its panel
//	                                          ^  | lease is another's   |      | no
//	                                          |  v                      |yes   v majority
//	                                          |  (theirs)               |   LongSilence
//	                                          +---- later --------------+      |
//	                                                     lease n+1 <----+------+
//	                                                         v
//	                                               estimating, with empty state
//
// Times.Anew is longer than most cuts: an owner and its shadows that are on the other side
// are back with what they have. If it had just been claimed when its owner was last heard it had
// no shadow yet, and Times.Orphan will do. Those who are there, and would have been chosen as shadows first, are asked before whether
// they have a complete copy of that lease (holders.go); one that has is left the time to
// take over with it, which may be its own Times.Anew after a restart.
//
// The panel is had from those who may be in it (witness.PanelOf), once a try. A copy
// that turns up too late, or was never complete, is salvaged before it goes
// (salvage.go): its URLs are put aside like own finds, for whoever owns the subnet.
//
// and at the owner, when it is back or was only cut off:
//
//	owned --right lost (witness)--> nothing fetched, taken in or given away --right--> owned
//	owned --a witness voted--> revoked: the same, for this subnet, on the disk
//	                             | lease renewed: a better one      | none, Times.Revive later
//	                             v                                  v
//	                   yielding: what the winner cannot know       owned
//
// Who decides what, where things cross:
//
//   - The lease comes before the subnet here, against the order of a handover: the
//     copy is on our disk anyway, and votes hold for a short time only, so nothing
//     may be fetched before the lease stands. Killed in between, the next start
//     finds a lease of ours in the DHT and a copy here, and goes on (whose, begin), also if
//     the old owner is back: it has yielded to that lease.
//   - A claim (epoch 1) and a takeover (n+1): the epoch decides, wherever they meet. A
//     claim of what there is a copy of begins with the copy.
//   - An old copy must not win. Witnesses do not know who is a shadow; so a shadow does
//     not ask if others heard the owner more than Times.Lost after it was counted on
//     by the owner, for all it knows (shadow.Held): it may have been replaced, and what was
//     acknowledged since is not here. Only when the owner is dead for Times.Anew, and
//     nobody has taken over, is an old copy better than none. An owner acknowledges nothing while a shadow does not
//     answer and is not yet replaced.
//   - An owner that is back while its shadow takes over may end that copy, or send it
//     anew: it is pinned from before the votes until the takeover has ended.
//   - Two shadows: each waits its own part of Times.Spread longer; the votes
//     decide, and the other's copy follows the winner, from its log's base if they
//     were at the same place.
//   - A restart of seconds: nobody votes, the owner goes on. A restart of the shadow: its
//     owner waits for Times.Lost and then has another. Both: as above; a shadow that
//     was away goes by what it has written down of the link (package shadow), or, where
//     that does not tell, by when it was last known to run (awake.go) if others have
//     heard the owner since.
//   - An owner that has lost its disk and is back under its key owns by the DHT what it
//     knows nothing of (restore.go). It fetches nothing there and asks who is there for
//     copies; the best one's holder is granted the subnet, where its copy is. It
//     has read the lease just before: a shadow that has taken over shows there. One that
//     takes over at that moment has a lease of the same epoch, and the tie-break decides.
//     Killed in between, it finds the grant on its disk and offers it to the same holder.
//     It learns of such a subnet from who has URLs for it, or from a shadow that it
//     does not follow up (remind.go): else nobody would work there, as it is heard.
//     If that one is silent for Times.Anew the subnet is begun anew under the old epoch,
//     which yields to the holder's should it be back. What a holder says is its word: one
//     that lies gets a subnet, as any candidate may that lies about its times.
//   - An owner that is cut off with some of its witnesses has its right for up to 15 s
//     more, and its shadow may be on the other side. So once heartbeats stay away it fetches
//     a page only if the shadows have those before it (ahead, Times.Brink).
//   - An owner without its right gives no grant either, so that no transfer of epoch
//     n+1 meets a takeover of the same.
//   - In doubt about a handover the subnet is nobody's else: old owner and heir are told
//     apart by the heir's lease. The old owner asks on; if the heir has published
//     and died, its copy is taken over like any; if it vanished before, it is
//     taken back, by the votes of its witnesses or after lease.LongSilence (reclaim.go). An owner that dies after
//     "prepared" leaves an heir that is a complete shadow.
//   - The winner puts the old owner's undelivered links aside as its own. The old
//     owner, if it lives, delivers them too: they count once.
//   - What is yielded is what was queued behind the winner's place in our log, and
//     still is; all of it if that place is not known, as after a restart. What it
//     knows it drops as seen.
//   - A subnet that was being estimated goes on being estimated, with the samples of
//     the last time that the old owner opened the link. Whom it had asked is not
//     known: its servers rest for Config.Rest, and an estimation ends before votes begin.
//   - Two sides of a cut may each claim a subnet that nobody owned, or each take the
//     same step. So what came to a peer is read again some times afterwards, and whenever
//     somebody is back what came since shortly before (rivals.go); before a subnet
//     is given away its lease is read, too. The tie-break says who yields.
//   - A claim that was written and broke off, or an owner that lost its disk, leaves a
//     lease of a peer that does not act upon it, while all others send it the subnet's
//     URLs. They are told to come again, and the claim is settled once more, after which the
//     subnet rests: another claim may have come in between (unsettled.go).
//   - Clocks: all waits are of one peer's own clock; leases forgive minutes.
//
// Drain hands everything over when this peer leaves: to a shadow that is in sync if
// there is one, so that a subnet rests only for the last few changes.
//
// # Too much to do
//
// A peer may bound the pages that it fetches a day, and its hours (Limits); that it
// fetches no more than that is the crawler's matter, not this package's. While there
// is more to do than that for some minutes, one subnet a minute leaves: that whose
// times differ the least between peers, for the next best peer that has announced room
// (Papapetrou 2003, 7.6.3). It rests for half an hour, and who gives stops well
// above what others fill themselves to, so that nothing goes to and fro. Who takes
// nothing is no candidate, and says so in its beacon by a capacity of 0.
//
// When its hours are about to end, all that has work goes to those that go on, and
// with it, from owner to owner, the names of those whom it left by the clock alone:
//
//	      hours end, work                     takes subnets again, has room, is nearer
//	lender ---------------> heir, [.. lender] ------------------------------> lender, [..]
//	                          |          |
//	  hours end: [.. lender, heir]       '-- takes subnets and is not nearer: forgotten
//
// It goes back at once, with or without work, but not within ten minutes of its move.
// That is decided once; afterwards, reviews are as for any other. So it moves
// twice a day for a lender's hours.
//
// # Peers that come and go
//
// There is no share that depends on the number of peers (Papapetrou's thresholds):
// a subnet belongs to the nearest that has room, however many there are. A newcomer is a
// candidate of each decision from its first beacon on; of what is decided
// already, scouts and reviews bring it what it is clearly nearest to, overload
// what it has room for, and nothing moves among the others. Of one that leaves, or
// vanishes, the shadows and the nearly nearest take what it had, spread over them by
// a hash; reviews set right what a nearer one should have.
//
// Hosts that move from one subnet to another are package homing's, which a Manager
// makes, runs, and tells of its subnets.
//
// The package may import coords and store and its sibling packages lease,
// home, homing, estimate, handover, shadow, witness and carry; what it needs of room crawl it declares here
// and is given by room node.
//
// Files: needs.go and config.go what the Manager works with, times.go its times;
// manager.go the Manager and its loop; resolve.go whose is a host, claim.go how a
// subnet begins, renew.go its lease; decide.go evidence, strategy, choice; probe.go
// probes that are no page; adapt.go reviews, scouts, moves; seek.go peers that the
// directory lacks; decided.go what others may hear of; leave.go handing over,
// unsettled.go claims that broke off, reclaim.go an heir that vanished, heir.go receiving, drain.go leaving; shadows.go and
// nominate.go who shadows our subnets, safe.go what they hold, keeping.go whom we shadow;
// rivals.go leases that are read again, takeover.go votes and lease, promote.go the rest,
// orphans.go subnets without a copy, holders.go who has one, restore.go subnets of a lost disk, remind.go who tells of them, salvage.go copies
// that come too late, awake.go absences, full.go a disk without room; returning.go
// right and revocations, yield.go giving up; homes.go what homing needs of it; balance.go when there is too much
// to do, balance_act.go what goes then, balance_hours.go what goes and comes back by the clock; subnet.go one subnet's state.
package owner
