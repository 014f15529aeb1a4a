// Package deny keeps the list of hosts, domains and networks that the operator of a peer does not
// want to be requested. The list is a text file that may change at any time; it says nothing to
// other peers. It imports canon and performs no I/O but for the file.
//
// Files:
//
//	rule.go   Rule: a host, a domain or a network, and its textual form
//	list.go   List: the rules of a file, reread when it changes; Add and Remove
package deny
