package extract

import "strings"

// refreshTarget returns the reference in the content of a meta refresh, such as "5;
// url='next.html'" (HTML Standard, shared declarative refresh steps). It returns false if the page
// refreshes itself.
func refreshTarget(content string) (string, bool) {
	s := strings.TrimLeft(content, whiteSpace)
	rest := strings.TrimLeft(s, "0123456789")
	if rest == s && !strings.HasPrefix(s, ".") {
		return "", false // no time
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	if rest == "" || !strings.ContainsRune(";,"+whiteSpace, rune(rest[0])) {
		return "", false
	}
	rest = strings.TrimLeft(rest, whiteSpace)
	if rest != "" && (rest[0] == ';' || rest[0] == ',') {
		rest = strings.TrimLeft(rest[1:], whiteSpace)
	}
	if rest == "" {
		return "", false
	}
	return unquote(afterURLEquals(rest)), true
}

// afterURLEquals skips "url =". If s does not begin with it, all of s is the reference.
func afterURLEquals(s string) string {
	if len(s) < len("url") || !strings.EqualFold(s[:len("url")], "url") {
		return s
	}
	value, ok := strings.CutPrefix(strings.TrimLeft(s[len("url"):], whiteSpace), "=")
	if !ok {
		return s
	}
	return strings.TrimLeft(value, whiteSpace)
}

// unquote removes an opening quote, and everything from the closing quote on.
func unquote(s string) string {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return s
	}
	inside, _, _ := strings.Cut(s[1:], s[:1])
	return inside
}
