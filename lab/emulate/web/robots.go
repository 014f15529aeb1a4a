package web

import (
	"strconv"
	"strings"
	"time"
)

// robotsKind is the kind of a site's robots.txt.
type robotsKind int

const (
	robotsPlain    robotsKind = iota // forbids trees, with one exception
	robotsPatterns                   // also * and $, a group for another crawler, a crawl-delay
	robotsNone                       // 404
	robotsMoved                      // as plain, behind a redirect
)

// The paths that robots.txt names.
const (
	closedTree = "/private/"
	innerTree  = "/internal/"
	openTree   = "/internal/public/" // allowed
	movedFile  = "/meta/robots.txt"
)

func robotsOf(id int) robotsKind {
	if id%11 == 9 {
		return robotsMoved
	}
	return []robotsKind{robotsPlain, robotsPatterns, robotsNone, robotsPlain, robotsPatterns}[id%5]
}

// text returns the robots.txt of a site; gap is the minimum time between requests.
func (k robotsKind) text(gap time.Duration) string {
	plain := "# Be kind.\nUser-agent: *\n" +
		"Disallow: " + closedTree + "\n" +
		"Disallow: " + innerTree + "  # but see below\n" +
		"Allow: " + openTree + "\n"
	if k != robotsPatterns {
		return plain
	}
	return "User-agent: greedybot\nDisallow: /\n\n" + plain +
		"Disallow: /*?sort=\n" +
		"Disallow: /run/*.cgi$\n" +
		"Crawl-delay: " + strconv.FormatFloat(k.crawlDelay(gap).Seconds(), 'f', -1, 64) + "\n"
}

// crawlDelay returns the delay that robots.txt requires, at most gap.
func (k robotsKind) crawlDelay(gap time.Duration) time.Duration {
	if k != robotsPatterns {
		return 0
	}
	return (gap / 2).Truncate(time.Millisecond)
}

// forbids reports whether a robots.txt of this kind forbids key.
func (k robotsKind) forbids(key string) bool {
	if k == robotsNone {
		return false
	}
	if strings.HasPrefix(key, closedTree) {
		return true
	}
	if strings.HasPrefix(key, innerTree) && !strings.HasPrefix(key, openTree) {
		return true
	}
	return k == robotsPatterns && (strings.Contains(key, "?sort=") ||
		strings.HasPrefix(key, "/run/") && strings.HasSuffix(key, ".cgi"))
}
