// Package overlay is the network as one peer sees it: the libp2p host, the
// private Kademlia DHT and the gossip of one peerd network, built together and
// ended together. What is said over them is the business of the packages below
// it; this one knows no message of theirs.
//
// A [Net] is built by [New], which opens the listening sockets. Its [Net.Run]
// keeps it connected: to the bootstrap peers first, to peers known from before
// while it is alone, and now and then to the bootstrap peers and to members that it
// has lost, ever seldomer but for ever, so that two halves of a parted network find
// each other. [Net.Close] ends everything.
//
// Every protocol identifier, topic and DHT prefix carries the network's
// identifier, so that peers of different networks, even when they happen to
// connect, share nothing. [Names] is the one list of them.
//
// Values under a DHT key are read and written by [Values], not by the DHT's own
// PutValue: that one reports success although every replica refused.
//
// Files:
//
//	config.go    Config, its defaults and checks
//	protocol.go  Names: every protocol, topic and namespace
//	net.go       Net: New, Run, Close, Handle
//	host.go      the libp2p host: transports, connection and resource limits
//	traffic.go   the count of bytes that the overlay costs
//	dht.go       the DHT and how it is tuned
//	gossip.go    gossipsub and how it is tuned
//	join.go      bootstrap and reconnection
//	lost.go      members whose connection has ended, and when to try them
//	mdns.go      finding peers on the local network, if asked to
//	values.go    Values: put with counted answers, quick get
//	replicas.go  which peers hold a key, and talking to one of them
//	local.go     this peer's own copies of records, and their sweeping
//
// On top of it: who is there (peers), who owns what (lease, home, owner) and whether
// it may act so (witness), what is known of all decided subnets (atlas), and moving
// URLs (forward), hosts (homing, carry), subnets (shadow, which keeps copies of them, and
// handover) and fetches (estimate). What their tests share is overlaytest.
//
// It imports overlay/wire and the libp2p modules. Its sub-packages get what
// they need handed in: a host, a topic, Values.
package overlay
