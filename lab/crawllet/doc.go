// Package crawllet has what experiments with crawls at the source share: sites in processes of
// their own, emulated paths to them, and the three crawls that are compared. Its test measures a
// real site:
//
//	go test -tags integration ./lab/crawllet -v -args -site DIR
//
// The processes are the program that uses the package, started again, so its main function must
// call Main first.
//
// Files:
//
//	path.go   Path: a port that leads to a site over an emulated path
//	site.go   Site: the process that serves a directory and its crawllets; Build
//	crawl.go  Ordinary and AtSource: crawls of a site
package crawllet
