// Package netns emulates the network between real processes on one machine: one network
// namespace per peer, joined by a bridge, and faults of its links and addresses.
//
// Run starts a program in new namespaces, in which Mount and New create the network. All of it
// disappears when that program exits. It needs the commands ip and nft, and root or user
// namespaces.
//
// The servers of the sites run in that program itself: every address of Sites is its own. Peers
// reach them through the gateway, and each other directly:
//
//	peer 0, 10.100.0.1 ── p0 ──┐
//	peer 1, 10.101.0.1 ── p1 ──┤ br0 ── 10.64.0.1, fd64::1 (gateway) ── 10.80.0.0/12, fd80::/16
//	...                        ┘
//
// Files:
//
//	namespaces_linux.go  Run, Mount: new namespaces and their file systems
//	network.go           Network: the bridge, its peers and their links
//	syn_linux.go         WatchSyns: which connections a peer begins
//	fault.go             Fault: packets that are dropped or refused
package netns
