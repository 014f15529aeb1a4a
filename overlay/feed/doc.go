// Package feed sends what a peer archives to collectors, which archive it, too.
//
// The archive of the sender is the queue: nothing else is stored there. A collector names the
// position up to which it has the archive of a peer, by the files there, and the sender sends what
// follows, in packets. A packet has the exchanges and the position after them; it is
// acknowledged, and the next one sent, when the collector has both on disk. So kill -9 at either
// end loses nothing: a packet that was not acknowledged is sent again. The Sink of the collector
// leaves out what it has already.
//
// The sender leaves out what it collected itself from others, so nothing goes in circles, and
// what is neither of the hosts nor about the topics that the collector asked for. A topic is a
// query, which the sender compares with each page, so that nothing else is sent.
//
// Bounds: one conversation with each collector and MaxCollectors in all, half of them in one /24 or
// /48, a packet of about 1 MiB or one larger exchange, bytes per second for all collectors
// together. An exchange above maxExchange is left out, and the sender logs it. New pages are held
// for a second, so that those of a moment share a packet. Collectors that name hosts or topics
// share a turn to have the archive read.
//
// A packet is compressed (zstd). The connection authenticates the sender: packets are not passed
// on, so they have no signature of their own.
//
// Of a page that has changed, a packet has the difference to the last version, if sender and
// collector both know where that is in their archives.
//
// The messages are described in docs/protocol/feed.md.
package feed
