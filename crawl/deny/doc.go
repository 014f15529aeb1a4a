// Package deny keeps what a peer does not request: the hosts, domains and networks that its
// operator denies, the web sites that have opted out, and the addresses that asked to be left
// alone. The operator's list is a text file that may change at any time; it says nothing to other
// peers.
//
// A site opts out by a file (OptOutPath), whoever says so: other peers say only that the file is to
// be read, which [OptOuts] limits. docs/protocol/optout.md describes the file. The package imports
// canon and store for URLs, and performs no I/O but for the list's file.
//
// Files:
//
//	rule.go    Rule: a host, a domain or a network, and its textual form
//	list.go    List: the rules of a file, reread when it changes; Add and Remove
//	optout.go  OptOuts: sites that opted out, or are said to; stops
package deny
