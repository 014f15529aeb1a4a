// Package traffic limits all bytes that a peer sends and receives: per second, and per calendar
// month (UTC). It counts what passes through its connections, which are those to web servers, to
// name servers and over TCP to other peers, and adds an estimate of the headers of TCP and IP. It
// does not count repeated packets, packets that reach no connection, and what stays in the local
// network: multicast DNS and requests to the router.
//
// # Bandwidth
//
// A token bucket holds the bytes of 150 ms. Sends wait before they are written.
// Receives of other peers wait after they are read, and the sockets have small buffers, so that
// TCP slows the sender down. For web servers, of which many may answer at once, the bytes that a
// socket may receive are taken from the bucket before they can arrive. In any 10 s at most 9.95
// times the bandwidth is taken: the rest up to 10.5 is for what the sockets hold.
//
// There are two classes. Traffic with other peers and name servers goes first: that with web
// servers leaves it half of the bucket, and so gets nothing while it waits.
//
// # Monthly volume
//
// Bytes count before they are sent and when they are received. The stored count is ahead of the
// real one by up to a block, and at least by a margin that covers what has arrived but was not
// read, so that a killed process forgets none. The last fiftieth of the volume is kept for other
// peers: without it web servers get nothing. When that is used up, too, every operation on a
// connection fails with ErrUsedUp until the month ends.
package traffic
