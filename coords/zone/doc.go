// Package zone limits what a peer needs to know of the others in a large network: it
// selects the peers in a bounded table, the peers to tell another peer about, and the
// peers to ask when searching for the one nearest to a target.
//
// A table contains three kinds of peers (Keep):
//
//   - the nearest ones, so that a peer near a target knows the others near it;
//   - the nearest one of each zone. A zone is the part of the space that one of
//     several exponential rings and one of several sectors have in common (scaled
//     θ-routing: Hassin and Peleg, PODC 2000; Ledlie et al., IPTPS 2007). From
//     anywhere there is a peer about half way in every direction;
//   - random ones, which no peer can influence by the coordinates that it claims.
//
// Of the peers that another peer is told about, half are nearest to it and half random
// (SelectOffers). This builds tables of near peers from nothing in about log n rounds
// (T-Man: Jelasity and Babaoglu, 2005).
//
// A Search is the greedy lookup over such tables without the messages. It always ends:
// no peer is asked twice, and the number of hops is bounded.
//
// All functions are pure.
package zone
