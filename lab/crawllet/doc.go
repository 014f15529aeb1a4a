// Package crawllet measures a crawl at the source beside an ordinary one, over an emulated path:
//
//	go test -tags integration ./lab/crawllet -v -args -site DIR
package crawllet
