package sitemap

import (
	"strings"

	"peerd/store"
)

// Allowed is the rule of sitemaps.org, "Sitemap file location": a map speaks
// for the URLs of its own scheme, host and port whose path begins with the
// folder that the map lies in. So one who may write to a folder cannot speak
// for the site.
//
// It is the caller's option. By the same document ("Cross submits") a map that
// the robots.txt of a host names may speak for all of that host, wherever the
// map lies; and since every URL has to pass scope and robots.txt of its own
// host anyway, a crawler that takes maps as a source of links, not as a
// statement of their owner, need not ask. Hints on when to look again
// (LastMod, ChangeFreq) should be taken from maps that are allowed only.
func Allowed(at, page store.URL) bool {
	folder, _, _ := strings.Cut(string(at), "?")
	folder = folder[:strings.LastIndexByte(folder, '/')+1]
	return len(folder) > len(at.Origin()) && at.Origin() != "" && strings.HasPrefix(string(page), folder)
}
