// Package faulty serves web sites and names that fail when a test says so: sites that answer 503,
// reset or hang within an answer, or are slow, invalid certificates, and names with SERVFAIL,
// time-outs or NXDOMAIN. Package netns adds the faults of the network below them.
//
// Every request and query is logged as the server saw it. The log decides what a crawler fetched,
// how often, and when.
//
// Files:
//
//	web.go    Web, Site: sites and the servers for all of them
//	pages.go  the pages of a site: a tree of links, with text of their own
//	fault.go  Fault: what happens to the answers of a site
//	cert.go   certificates, valid and invalid, of one authority
//	log.go    Hit: one request; the measures of a log
//	names.go  Names: a DNS server
package faulty
