// Command chaos has real peers crawl real sockets while a script kills them,
// stops them, and cuts them from one another, and lets the sites' logs judge:
//
//	go run ./node/chaos --peers 8 --sites 40 --for 10m --seed 7 --scenario all
//
// Each peer is a process of the program peerd with default settings of the
// overlay. The sites (node/emulate/web) are served by this process; who fetched
// is told by the contact URL in the User-Agent. When the script is over, all
// peers but those lost for good run on until none has work left. The exit status
// is 1 if something of what must hold does not.
//
//	scenario   what the script does                       must hold
//	kills      kill -9 of three peers of eight and         coverage 1, overlap ≤ 0.5 %
//	           restarts, throughout
//	lost       kill -9 of one peer, its home deleted       coverage 1; its subnets fetched by others in 60 s
//	partition  half | half for --cut, then healed          coverage 1, overlap ≤ 2 %, one owner in 2 min
//	leave      peerd stop of one peer, not started again   coverage 1, overlap 0, no subnet idle for 5 s
//	mixed      kills, SIGSTOPs, cuts of pairs both ways    coverage 1, overlap ≤ 2 %, one owner in 2 min
//	           and one way, of one from all, stops
//	all        each of them, one after the other
//
// No politeness violation in any. A script follows from the seed; what becomes
// of it does not, processes being real.
//
// # Cutting
//
// The machine's own network is not touched. The program starts itself again in
// namespaces of its own (process, mount, network; without root in a user
// namespace): there each peer has a network namespace with one end of a veth
// pair, the other ends are ports of a bridge, and nftables drops what goes from
// one port to another while these are cut. The sites are behind the bridge,
// which no cut concerns. When the program ends, however it ends, the kernel kills
// what runs in the namespaces and removes them, so nothing is left to clean up.
//
// Where that is not to be had the program says so in one line, peers and sites
// share loopback, and what needs a cut is left out.
//
// It imports node/admin, node/config and node/emulate/web.
//
// Files:
//
//	main.go          options, which scenarios to run
//	inside_linux.go  namespaces; nothing elsewhere
//	wires.go         addresses; the bridge and its cuts, or loopback
//	peer.go          a peer's process and home
//	script.go        from seed to steps
//	start.go         the peers of a run, until they know each other
//	play.go          one run: the steps and the end
//	watch.go         the looks
//	history.go       what happened: steps, looks and hits, in order
//	judge.go         the figures that come of it
//	faults.go        those about kills, cuts and leaves
//	report.go        checks; figures for people
package main
