package extract

import "strings"

// resources are the relations of link whose targets are no pages but resources
// of this page, connections, or interfaces, with the kind that wants them.
var resources = map[string]Kinds{
	"stylesheet": Styles,
	"icon":       Media, "mask-icon": Media, "fluid-icon": Media,
	"apple-touch-icon": Media, "apple-touch-icon-precomposed": Media, "apple-touch-startup-image": Media,
	"manifest": 0, "pingback": 0,
	"preload": 0, "modulepreload": 0, "prefetch": 0, "dns-prefetch": 0, "preconnect": 0,
}

// kindOf says what a link with that rel may lead to: a page, unless one
// relation says otherwise ("alternate stylesheet", "shortcut icon").
func kindOf(rel string) Kinds {
	for token := range strings.FieldsFuncSeq(rel, isWhiteSpace) {
		if k, ok := resources[strings.ToLower(token)]; ok {
			return k
		}
	}
	return Pages
}

// hasToken looks for a token in a list separated by white space, in any case.
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
