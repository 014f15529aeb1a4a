// Package outage tests what peerd fetches when networks, sites, names and certificates fail, with
// real processes in network namespaces (lab/emulate/netns) and sites and names that fail on demand
// (lab/emulate/faulty). Each row of the table in rows_integration_test.go is one outage, and is
// judged by the log of the sites.
//
//	go test -tags integration ./lab/outage -v
//	go test -tags integration ./lab/outage -v -run 'TestRows/crawl-cut' -args -keep DIR
//	go test -tags integration ./lab/outage -v -timeout 2h -args -long
//
// A row that is not met yet has the reason in its field known. Then it is reported but does not
// fail.
//
// Files:
//
//	outage_integration_test.go  flags; a process in new namespaces for each row
//	rows*_integration_test.go   the table
//	row_integration_test.go     row, want: what happens and what must follow
//	world_integration_test.go   world: network, sites, names and peers of a row
//	checks_integration_test.go  what rows check in the logs
//	peer_integration_test.go    peer: a process of peerd and its home directory
package outage
