// Package zone chooses what to know when one cannot know everybody: which peers
// a bounded table keeps, which ones to tell another peer of, and how to find
// the peer nearest to a target by asking peers that know more.
//
// A table keeps three kinds of peers (Keep):
//
//   - the nearest ones, so that whoever is near a target knows the best of its
//     neighbourhood;
//   - the nearest one of each zone, a zone being the part of space that one of
//     several exponential rings and one of several sectors share (scaled
//     θ-routing: Hassin and Peleg, PODC 2000; Ledlie et al., IPTPS 2007): from
//     anywhere there is somebody about half way, in every direction;
//   - random ones, which nobody can choose by the coordinates that he claims.
//
// What is told to another peer is half what is nearest to it and half random
// (Tell), which makes tables of near peers from nothing in about log n rounds
// (T-Man: Jelasity and Babaoglu, 2005).
//
// A Search is the greedy lookup over such tables, without the messages: who has
// been found, whom to ask next, when to end. It ends always: nobody is asked
// twice and the hops are bounded.
//
// Everything here is a pure function of its arguments.
//
// # Files
//
//	zone.go   Of: the zone of a point as seen from another
//	table.go  Config, Keep, Tell
//	search.go Search
package zone
