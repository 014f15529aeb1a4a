package canon

import "strings"

// names is a set of lower-case names by their first byte. Lookups ignore letter case and do not
// allocate.
type names ['z' + 1][]string

func newNames(list ...string) *names {
	var n names
	for _, name := range list {
		n[name[0]] = append(n[name[0]], name)
	}
	return &n
}

func (n *names) has(name string) bool {
	if name == "" || name[0] > 'z' {
		return false
	}
	first := name[0]
	if 'A' <= first && first <= 'Z' {
		first += 'a' - 'A'
	}
	for _, is := range n[first] {
		if len(is) == len(name) && strings.EqualFold(is, name) {
			return true
		}
	}
	return false
}

var (
	// sessionNames are parameters of paths and queries that contain only a session ID: those of
	// Java, PHP, ColdFusion, osCommerce and Zen Cart, and common names of others.
	sessionNames = newNames("jsessionid", "phpsessid", "cfid", "cftoken", "oscsid", "zenid",
		"sessionid", "session_id", "sessid", "sess_id")
	// shortSessionNames are such parameters only if the value looks like a session ID: a sid can
	// as well be the number of an article.
	shortSessionNames = newNames("sid", "session", "psessionid", "s_id")
	// trackingNames are parameters that mail, search and advertising services add to links.
	trackingNames = newNames("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source",
		"srsltid", "_ga", "_gl", "fbclid", "msclkid", "yclid", "ysclid", "twclid", "ttclid",
		"li_fat_id", "igshid", "igsh", "epik", "_openstat", "mc_cid", "mc_eid", "mkt_tok", "_hsenc",
		"_hsmi", "__hstc", "__hssc", "__hsfp", "hsctatracking", "vero_id", "oly_anon_id",
		"oly_enc_id", "ml_subscriber", "ml_subscriber_hash", "rb_clickid", "s_cid", "wickedid",
		"_branch_match_id", "_kx", "pk_campaign", "pk_kwd", "pk_source", "pk_medium", "pk_content",
		"pk_cid")
)

// minID is the minimum length of a value that looks like a session ID.
const minID = 16

// isSession reports whether a parameter is a session ID. The names of ASP are followed by eight
// letters.
func isSession(name, value string) bool {
	const asp = "aspsessionid"
	return sessionNames.has(name) || shortSessionNames.has(name) && isID(value) ||
		len(name) == len(asp)+8 && strings.EqualFold(name[:len(asp)], asp)
}

// isID reports whether a value is long, consists of letters and digits, and contains a digit.
func isID(value string) bool {
	if len(value) < minID {
		return false
	}
	digit := false
	for i := range len(value) {
		c := value[i]
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
		digit = digit || isDigit(c)
	}
	return digit
}

func isTracking(name string) bool {
	return len(name) > 4 && name[3] == '_' &&
		(strings.EqualFold(name[:4], "utm_") || strings.EqualFold(name[:4], "mtm_")) ||
		trackingNames.has(name)
}

// dropPathSessions removes session IDs from a URL without a query.
func dropPathSessions(s string) string {
	if strings.IndexByte(s, ';') < 0 && !strings.Contains(s, "/(") {
		return s
	}
	path := strings.Index(s, "://") + len("://")
	path += strings.IndexByte(s[path:], '/') + 1
	segments := strings.Split(s[path:], "/")
	kept := segments[:0]
	for i, segment := range segments {
		segment = dropSegmentSessions(segment)
		if isCookielessSession(segment) {
			if i < len(segments)-1 {
				continue
			}
			segment = "" // the directory remains
		}
		kept = append(kept, segment)
	}
	return s[:path] + strings.Join(kept, "/")
}

// dropSegmentSessions removes the parameters that contain session IDs, unless a dot segment would
// remain.
func dropSegmentSessions(segment string) string {
	name, rest, more := strings.Cut(segment, ";")
	kept := name
	for more {
		var field string
		field, rest, more = strings.Cut(rest, ";")
		if key, value, _ := strings.Cut(field, "="); !isSession(key, value) {
			kept += ";" + field
		}
	}
	if kept == "." || kept == ".." {
		return segment
	}
	return kept
}

// isCookielessSession reports whether a segment is state that ASP.NET keeps in the path: in
// parentheses, one or more groups of a letter followed by an ID in parentheses.
func isCookielessSession(segment string) bool {
	rest, ok := strings.CutPrefix(segment, "(")
	if !ok || !strings.HasSuffix(rest, "))") {
		return false
	}
	rest = rest[:len(rest)-1]
	for rest != "" {
		group, more, ok := strings.Cut(rest, ")")
		if !ok || len(group) < 2+minID || group[1] != '(' ||
			strings.IndexByte("SAFX", group[0]) < 0 || strings.IndexByte(group[2:], '(') >= 0 {
			return false
		}
		rest = more
	}
	return true
}
