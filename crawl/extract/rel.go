package extract

import "strings"

// resourceRels are the relations of link elements that refer to resources of the page, connections
// or interfaces rather than to pages, with the kind of such a reference.
var resourceRels = map[string]Kinds{
	"stylesheet": Styles,
	"icon":       Media, "mask-icon": Media, "fluid-icon": Media, "apple-touch-icon": Media,
	"apple-touch-icon-precomposed": Media, "apple-touch-startup-image": Media,
	"manifest": 0, "pingback": 0,
	"preload": 0, "modulepreload": 0, "prefetch": 0, "dns-prefetch": 0, "preconnect": 0,
}

// kindOf returns the kind of a link with a rel attribute: Pages, unless one of the relations has
// another kind ("alternate stylesheet", "shortcut icon").
func kindOf(rel string) Kinds {
	for token := range strings.FieldsFuncSeq(rel, isWhiteSpace) {
		if k, ok := resourceRels[strings.ToLower(token)]; ok {
			return k
		}
	}
	return Pages
}

// hasToken reports whether a list separated by white space contains a token, in any letter case.
func hasToken(list, want string) bool {
	if len(list) < len(want) {
		return false
	}
	for token := range strings.FieldsFuncSeq(list, isWhiteSpace) {
		if strings.EqualFold(token, want) {
			return true
		}
	}
	return false
}

func isWhiteSpace(r rune) bool { return strings.ContainsRune(whiteSpace, r) }
