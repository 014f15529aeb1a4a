// Package attack contains the attacks of docs/threats.md. Each one runs hostile peers against
// real peers (package node) in this process, on loopback, and measures the effect.
//
// A hostile peer is a libp2p host with a key of its own that speaks the project's protocols
// (stranger), a member of the network with such a host (member), or a whole peer for which a web
// server of the attacker's stands for all sites (liar). The honest peers are those of the
// product; only the ages at which URLs are sent and subnets are claimed are shorter.
//
// An attack holds if its effect is at most its limit. Those that are known to have an effect are
// marked as open: Run reports them, and does not fail because of them.
//
// Files:
//
//	attack.go    Attack, Result, Run, the table of all attacks
//	arena.go     honest peers and liars; site.go web sites
//	stranger.go  hostile peers
//	other files  a family of attacks each
package attack
