// Package web is a synthetic web: sites of linked pages with robots.txt,
// redirects, dead ends and traps, served by real net/http servers that also
// judge the crawler. Everything is made from a seed: two processes with equal
// settings serve the same bytes, so that the sites of one web can be spread
// over several.
//
// It imports the standard library and node/emulate/wan, for the oracle only:
// without a World the sites answer with their own delay and nothing else.
//
// A page, here and in every figure, is an answer 200 text/html that robots.txt
// allows and that is reachable over links from the first page of site 0. Their
// number is exactly Config.Pages.
//
// Files:
//
//	config.go    Config, DefaultConfig, Validate
//	random.go    the deterministic numbers
//	words.go     words and names
//	site.go      site, page: sizes, paths and the tree of each site
//	links.go     what joins the sites; aliases that redirect
//	robots.go    robots.txt and what it forbids
//	render.go    the HTML of a page
//	href.go      the many ways to write a link
//	answer.go    what is answered to a host and a path
//	web.go       Web: New, names, URLs
//	listen.go    sockets, Run
//	serve.go     one request
//	control.go   the extra address: all sites by Host, /-/log, /-/sites
//	log.go       Hit: every request, as the sites saw it
//	visits.go    connections that came and went without a request
//	audit.go     Audit: coverage, robots and politeness from the log
//	oracle.go    PageTime: how long a download should take
package web
