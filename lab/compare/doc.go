// Package compare measures the throughput of peerd, of Colly and of a bare
// loop in one run on one machine, over the same pages of a local web server: no distance,
// no politeness, each crawler alone on one core, the server on another. The figure is
// pages per second of the crawler's processor time, user and system; the pages are those
// in the server's log.
//
//	peerd-lab compare --root /usr/share/doc/python3.11/html
//	peerd-lab compare --seed http://a.example/ --seed http://b.example/ --access-log FILE
//
// The crawlers:
//
//   - peerd: "peerd crawl", built from this tree, durable and with robots.txt;
//   - colly: Colly v2 (https://go-colly.org), asynchronous, nothing durable;
//   - bare: net/http, the tokenizer of x/net/html and a map, nothing durable: about the
//     least that a crawler written with Go's usual parts does.
//
// Colly and bare run with each number of --parallel, and the best median of each is
// compared with peerd. They skip links by file extension (driver.go) and peerd does not:
// peerd sends more requests, but only pages count.
//
// With --tls the sites use TLS. All crawlers verify the certificate, which is generated and
// given to them by the environment variable SSL_CERT_FILE.
//
// Colly's driver is a module of its own in the folder colly, so that Colly is no
// dependency of peerd. It and peerd are built from source unless they are given.
//
// Files: compare.go options and rounds; crawlers.go the processes and their command lines;
// measure.go one process on its cores; pin_*.go cores of a child; proc.go figures of
// /proc; accesslog.go the pages in the server's log; server.go nginx for --root; tls.go its
// certificate; report.go medians, ratios, table, JSON; driver.go options of a driver and
// the links that it follows; bare.go the bare loop.
package compare
