// Package lease says who owns a subnet. Ownership is a Lease: a small record,
// signed by the owner, under /peerd-lease/<prefix> in the DHT. Conflicting leases
// merge by a total order (Better) to the same winner everywhere, whatever the
// order of arrival.
//
//	epoch 1      a claim of a subnet that nobody owned
//	epoch n+1    a transfer: it carries the Grant that the owner of epoch n signed
//	epoch n+1    a takeover: it carries what stands for the consent of a silent owner
//
// # Life of a lease
//
//	          Claim: read, write, settle, read back
//	unowned ------------------------------------------> owned, epoch 1
//	   ^  ^                                                |
//	   |  | no better lease was there: a rival's Claim     |  Renew, each third of TTL
//	   |  +--(BeatenError: the rival owns it)              |  (same epoch, later Issued)
//	   |                                                   v
//	   |                +-------------------------------> owned, epoch n <-----------+
//	   |                |                                  |    |    |               |
//	   |         Renew  |   TTL passed, nothing renewed    |    |    | Grant signed, |
//	   |                +--- expired <---------------------+    |    | heir: Adopt   |
//	   |                     (names the owner still)            |    +---------------+
//	   |                        |                               |      epoch n+1     |
//	   |   Grace passed         |    witnesses do not hear it:  |                    |
//	   +------------------------+    q votes, or nobody has for |                    |
//	                                 LongSilence                +---- TakeOver ------+
//
//	surrender: whoever holds a lease and meets a better one of another owner or epoch
//	(BeatenError, Learn, Refresh, a witness's revocation) stops at once.
//
// # What a lease proves
//
// Each record is checked by itself, by pure functions: the order of records must not
// depend on what a peer happened to see before.
//
//   - The signature proves that Owner says so.
//   - At epoch 1 nothing else is needed, and nothing is proven but that.
//   - A Grant proves that From wanted just this step: this subnet, epoch and heir. It
//     does not prove that From was the owner; the chain of leases is not kept.
//   - A quick Takeover proves that From had named these witnesses, and that a majority
//     of them and From together consented to just this step. It proves neither
//     that From was the owner, nor that the panel was its newest, nor how long ago the
//     votes were given. Honest witnesses refuse what is not so (package witness).
//   - A slow Takeover proves that Last.Owner held the epoch before, or said so, and
//     issued that lease LongSilence before the step. That it was silent is
//     the winner's word; replicas that heard it refuse (Validator.Heard).
//
// So a record above epoch 1 that lacks its evidence is refused everywhere: by
// replicas, by Learn, by readers. But rivals of one epoch are ordered by a hash over
// the owner's name: being early or setting one's clock does not help, making many
// names does. A peer that lies can take a subnet; what it cannot do is to make others
// disagree about who has it. Peers that lie have to be kept out of the network.
//
// Evidence stays with the lease in all its renewals. It lies next to the signed part,
// which holds its digest, so that a slow takeover can show the last lease without
// that one's evidence, and no record grows with its history.
//
// # What holds in time
//
// A claim is written, left to settle, and read back before its maker may fetch
// anything. Still this is no consensus: for a moment, or in a partition, two
// claimants may each believe to be the owner. So the epoch travels with all work as a
// fencing token, and whoever meets a better lease stops at once. A quick takeover
// needs no settling: no two candidates have the votes for one step, and the owner
// has lost its right before there are any.
//
// A lease that has expired still names the owner, and is still valid in the DHT, for
// Grace after its end, so that a lower epoch cannot creep back meanwhile. Lookup
// returns such leases; Lease.Expired tells. After Grace the subnet is free, and a claim
// starts again at epoch 1. Clocks may differ by Skew: only Issued, Expires and Grace
// depend on what they show.
//
// # Partitions
//
// What becomes of a subnet whose owner O has a panel of witnesses (see package witness;
// eight peers, four witnesses drawn from the other seven, default times):
//
//	partition          | O's subnets                                  | afterwards
//	-------------------+----------------------------------------------+---------------------
//	4 | 4              | 2 or more witnesses on O's side (63 % of     | nothing to merge: each
//	                   | owners): O goes on. Else (37 %): O stops     | subnet had one owner;
//	                   | after 15 s, and the other side, with 3 or    | O is told what was
//	                   | more, takes over after 20 s                  | voted away, and yields
//	5 | 3, O with the 5| 2 or more witnesses near (89 %): goes on,    | the same
//	                   | else it moves to the three                   |
//	5 | 3, O with the 3| 2 or more near (29 %): goes on, else it      | the same
//	                   | moves to the five                            |
//	7 | 1, O the one   | O stops, the seven take over                 | O yields and sends what
//	                   |                                              | the winner cannot know
//	7 | 1, O in the 7  | goes on; a lost witness is replaced          | -
//	O is not heard     | O gets no answer to what is not heard: it    | O yields
//	(one-way)          | stops after 15 s, is taken over after 20 s   |
//	O hears nothing    | O gets no answers: stops after 15 s. The     | O goes on: witnesses
//	(one-way)          | witnesses hear it: nobody takes over         | refused. It was idle
//	O paused           | taken over after 20 s; awake again, O has no | O yields
//	                   | right before it is told of the votes         |
//	3 of 4 witnesses   | O stops after 15 s: it cannot know that it   | goes on when one is back;
//	die at once        | is they who are gone. Nobody takes over      | for good after an hour
//	network of 2, 1|1  | no witnesses: O goes on for ever. The other  | nothing to merge
//	                   | may take over slowly, after an hour          | within the hour
//	network of 3, 2|1  | two witnesses, one keeps the right: alone,   | O yields if it was
//	                   | O stops and the two take over; else it goes  | alone
//	                   | on                                           |
//	an hour and more   | a side without the votes may take over       | two owners from then
//	                   | slowly what its replicas have not heard of   | on; the higher epoch
//	                   |                                              | wins when healed
//
// A takeover also needs somebody who has the subnet's state: else it waits, a quarter of
// an hour at the least (package owner), so that a shorter cut makes nobody begin anew. A claim of
// a subnet that nobody owned is decided on each side of a partition by itself;
// the tie-break chooses when it heals. Who claimed or was given something while others were
// out of reach reads it again when they are back (package owner), so that one owner is
// left within two minutes.
//
// The package imports coords, store and its own register; libp2p's core for keys
// and envelopes. It opens no stream itself: the DHT is handed in as Values.
//
// Files:
//
//	lease.go      Lease, Grant, the times, Better
//	panel.go      Panel, Vote and their signed forms
//	takeover.go   Takeover: its checks, Registry.TakeOver
//	check.go      what makes a record acceptable, one sentinel for each reason
//	seal.go       the signed form of leases and grants
//	validator.go  DHT key, record validator
//	registry.go   Registry: Lookup, Refresh, Learn, Cached, Forget
//	claim.go      Registry: Claim, Adopt, Renew
//	register/     envelopes and settling, shared with package home
package lease
