package trap

import (
	"math"
	"strings"
)

// token is a random value of a parameter.
type token struct {
	name    uint64 // hash of the parameter name in lower case
	value   uint64
	session bool // the name is one for session identifiers
}

const (
	minSession = 10 // minimum bytes of a value of a session parameter
	minToken   = 16 // minimum bytes of any other; random names have at least 64 bits
	maxToken   = 255
	// minEntropy, in bits per byte, separates random values from regular ones: 16 random
	// hex digits have 3.2 on average.
	minEntropy = 2.3
)

// charKind is the kind of a byte in a value.
type charKind uint8

const (
	kindOther charKind = iota
	kindDigit
	kindLower
	kindUpper
	kindDivider
)

func kindOf(c byte) charKind {
	switch {
	case '0' <= c && c <= '9':
		return kindDigit
	case 'a' <= c && c <= 'z':
		return kindLower
	case 'A' <= c && c <= 'Z':
		return kindUpper
	case strings.IndexByte("-_.!~*", c) >= 0:
		return kindDivider
	}
	return kindOther
}

// isToken reports whether v looks random: long, made of letters and digits (and the
// separators of UUIDs and base64), alternating between digits and letters or from lower to
// upper case more often than words do, and of high entropy. It misses about one in a few
// thousand random values. If session is set, letters and digits suffice.
func isToken(v string, session bool) bool {
	if len(v) < minSession || len(v) > maxToken {
		return false
	}
	var counts [128]uint8
	changes, letters, digits, dividers := 0, 0, 0, 0
	last := kindOther
	for i := range len(v) {
		c := v[i]
		kind := kindOf(c)
		switch kind {
		case kindDigit:
			digits++
		case kindLower, kindUpper:
			letters++
		case kindDivider:
			dividers++
			last = kindOther
			continue
		default:
			return false
		}
		if last != kindOther && kind != last && (last != kindUpper || kind != kindLower) {
			changes++
		}
		last = kind
		counts[c]++
	}
	n := letters + digits
	if session {
		return digits > 0 && n >= minSession
	}
	if digits == 0 || letters == 0 || n < minToken || 6*dividers > n || 8*changes < n {
		return false
	}
	return entropy(&counts, n) >= minEntropy
}

// entropy returns the Shannon entropy, in bits per byte, of n counted bytes.
func entropy(counts *[128]uint8, n int) float64 {
	sum := 0.0
	for _, c := range counts {
		sum += plogp[c]
	}
	return math.Log2(float64(n)) - sum/float64(n)
}

// plogp holds n·log2(n).
var plogp = func() (t [256]float64) {
	for n := 2; n < len(t); n++ {
		t[n] = float64(n) * math.Log2(float64(n))
	}
	return t
}()

// maxSessionName is the length of the longest name for session identifiers.
const maxSessionName = 24

// sessionName reports whether frameworks or shops use name for session identifiers, and
// returns a hash of it that ignores case.
func sessionName(name string) (session bool, id uint64) {
	if len(name) > maxSessionName {
		return false, hash(name)
	}
	var buf [maxSessionName]byte
	low := buf[:len(name)]
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		low[i] = c
	}
	id = hash(string(low))
	switch string(low) {
	case "(s())", "jsessionid", "phpsessid", "sessionid", "session_id", "session-id", "session",
		"sess", "sessid", "sess_id",
		"sid", "ssid", "nsid", "s_id", "cfid", "cftoken", "oscsid", "zenid", "xtsid", "phpsession",
		"sesskey", "sessionkey",
		"csrf", "_csrf", "csrftoken", "csrf_token", "authenticity_token", "nonce", "_wpnonce",
		"formkey", "form_key":
		return true, id
	}
	return strings.HasPrefix(string(low), "aspsessionid"), id
}
