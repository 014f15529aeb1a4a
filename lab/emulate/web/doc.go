// Package web provides a synthetic web: sites of linked pages with robots.txt,
// redirects, dead links and traps, served by real net/http servers that also audit the
// crawler. All content is derived from a seed: processes with equal settings serve the
// same bytes, so that several processes can each serve a part of the sites.
//
// It imports the standard library and lab/emulate/wan, the latter only for the oracle:
// without a World the sites answer after their own delay.
//
// A page, here and in all counts, is an answer 200 text/html that robots.txt allows and
// that is reachable over links from the first page of site 0. There are exactly
// Config.Pages.
//
// Files:
//
//	config.go    Config, DefaultConfig, Validate
//	random.go    the deterministic numbers
//	words.go     words and names
//	site.go      site, page: sizes, paths and the tree of each site
//	links.go     links between sites; aliases that redirect
//	robots.go    robots.txt and the paths it forbids
//	render.go    the HTML of a page
//	href.go      variants of writing a link
//	answer.go    the answer to a host and a path
//	web.go       Web: New, names, URLs
//	listen.go    sockets, Run
//	serve.go     one request
//	control.go   the additional address: all sites by Host, /-/log, /-/audit, /-/sites
//	log.go       Hit: every request, as the sites saw it
//	visits.go    connections without a request
//	audit.go     Audit: coverage, robots and politeness from the log
//	oracle.go    PageTime: the expected time of a download
package web
