// Package quota bounds what a peer asks of web servers, for its volunteer's sake:
// requests in 24 hours, bytes a second, and the hours of the day. Politeness is
// no matter of it: it may only make a request later.
//
// # Requests
//
// A token bucket over the open hours of a day. It holds an hour's worth (a 24th
// of the day's, one at the least), and is filled so slowly that bucket and
// filling together are never more than the day's requests in any 24 hours,
// wherever these begin:
//
//	burst = max(1, day/24)
//	filling = day - burst + 1       a day, always open
//	        = day - 2 burst + 1     with hours: 24 of them may meet two open spans
//	no fewer than day/2 or 1
//
// It is kept as one time, at which the bucket would be full again if it
// held only this (the generic cell rate algorithm of ATM, ITU-T I.371), in whole
// nanoseconds. That time is written down before it is reached, some requests
// ahead, so a peer that is killed has forgotten none and has lost an eighth of
// an hour's worth at the most.
//
// The redirects of a robots.txt whose first request was let in follow at once,
// since half of one is worth nothing: they are taken from what comes later, and
// are all that 24 hours may have more than the day's requests, five for
// each robots.txt that is under way.
//
// # Bytes
//
// A request may begin while the bucket is not empty; it is charged with what an
// answer has on average, and when it has ended with what it had. So a
// bandwidth holds over some tens of seconds and not within one answer, which
// comes as fast as it does without a bound: its time is a sample of distance.
package quota
