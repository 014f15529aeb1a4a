// Package crawllet lets a web site run a small program of a crawler beside its files, and the
// crawler read what the program writes: one exchange instead of one for each page (Thati, Chang
// and Agha: Crawlets, Agents for High Performance Web Search Engines, Mobile Agents 2001). It has
// the protocol, the host at the site, and the client. The program is a WebAssembly module for
// WASI preview 1; package agent is the reference. A Plugin is a module of the same kind, which
// processes the pages that this program has fetched (packages page and sample).
//
// A site serves crawllets with a Handler at Path, or with peerd crawllet serve. Each crawllet runs
// in a process of its own. The program that has the Handler is started again for this, so its
// main function must call Main first.
//
// The host guarantees:
//
//   - A crawllet reads files below the root that the site would serve: with the extensions of
//     Config.Types, no name beginning with a dot, nothing that robots.txt disallows, no symbolic
//     link out of the root. It cannot list directories.
//   - It has no network, no clock but the minute of its start, no environment, and no other file.
//   - It exceeds none of its Limits. Each is enforced outside the module, and an excess ends the
//     run with a named Reason. What was written before arrives.
//   - Its process ends with the run, the client's connection, or the host's process.
//
// The client checks everything that it receives, but cannot know whether a record is true. Check
// compares a sample with ordinary fetches.
//
// Files:
//
//	protocol.go   Path, Limits, Policy, Offer, Grant
//	sign.go       signed offers
//	reason.go     why an exchange failed
//	frame.go      the frames of a reply
//	handler.go    the host: Config, Handler and its four requests
//	tickets.go    granted offers; nonces
//	modules.go    uploaded modules
//	run.go        a crawllet's process, seen from the host
//	stream.go     its output: limit, compression, frames
//	process.go    what the process does: Main; process_linux.go its limits
//	functions.go  functions for it beside WASI
//	files.go      the files that it reads; plugin.go: plug-ins
//	client.go     Client; check.go: comparison with ordinary fetches
package crawllet
