// Package quota limits the requests of a peer for its operator: requests in 24 hours, bytes
// per second, and the hours of the day. Politeness is not its concern; a quota can only
// delay a request.
//
// # Requests
//
// Requests pass a token bucket over the open hours of a day. Its capacity is an hour's worth
// (1/24 of the daily limit, at least 1). It is filled so slowly that capacity and filling
// together never exceed the daily limit in any 24 hours:
//
//	burst   = max(1, day/24)
//	filling = day - burst + 1       per day, if always open
//	        = day - 2 burst + 1     with hours: 24 hours may touch two open periods
//	          and at least day/2 or 1
//
// The state is a single time, at which the bucket would be full again if nothing else were
// taken (the generic cell rate algorithm of ATM, ITU-T I.371), in whole nanoseconds. The
// time is stored some requests before it is reached. A killed peer therefore forgets no
// request and loses at most an eighth of an hour's worth.
//
// The redirects of a robots.txt follow its first request at once, because an unfinished
// lookup is useless. They are borrowed from later requests and are the only way to exceed
// the daily limit within 24 hours, by at most five for each robots.txt in progress.
//
// # Bytes
//
// A request may start while the bucket of bytes is not empty. It is charged with the average
// size of an answer at first and with the actual size when it has ended. A bandwidth limit
// therefore holds over some tens of seconds but not within one answer, which arrives at full
// speed so that its download time remains a measure of distance.
package quota
