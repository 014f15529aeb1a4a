package sitemap

import (
	"strings"

	"peerd/store"
)

// Allowed reports whether the sitemap at a URL may list page, by the rule of sitemaps.org in
// "Sitemap file location": the page must have the scheme, host and port of the sitemap, and a path
// that begins with the directory of the sitemap. With this rule, write access to one directory
// does not extend to the site.
//
// Callers decide whether to apply it. By the same document ("Cross submits"), a sitemap named in
// the robots.txt of a host may list any page of that host. A crawler that only uses sitemaps as a
// source of links need not apply the rule, because every URL must pass the scope and the
// robots.txt of its own host anyway. Hints about changes (LastMod) should be used only
// if the page is allowed.
func Allowed(at, page store.URL) bool {
	dir, _, _ := strings.Cut(string(at), "?")
	dir = dir[:strings.LastIndexByte(dir, '/')+1]
	return len(dir) > len(at.Origin()) && at.Origin() != "" &&
		strings.HasPrefix(string(page), dir)
}
