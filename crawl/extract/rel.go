package extract

import "strings"

// notPages are the relations of <link> whose targets are resources of this
// page, connections, or interfaces rather than pages.
var notPages = map[string]bool{
	"stylesheet": true, "icon": true, "mask-icon": true, "fluid-icon": true, "manifest": true,
	"apple-touch-icon": true, "apple-touch-icon-precomposed": true, "apple-touch-startup-image": true,
	"preload": true, "modulepreload": true, "prefetch": true, "dns-prefetch": true, "preconnect": true,
	"pingback": true,
}

// followed says whether a <link> with that rel may lead to a page: one
// excluded relation is enough ("alternate stylesheet", "shortcut icon").
func followed(rel string) bool {
	for token := range strings.FieldsFuncSeq(rel, isWhiteSpace) {
		if notPages[strings.ToLower(token)] {
			return false
		}
	}
	return true
}

// hasToken looks for a token in a list separated by white space, in any case.
func hasToken(list, want string) bool {
	for token := range strings.FieldsFuncSeq(list, isWhiteSpace) {
		if strings.EqualFold(token, want) {
			return true
		}
	}
	return false
}

func isWhiteSpace(r rune) bool { return strings.ContainsRune(whiteSpace, r) }
