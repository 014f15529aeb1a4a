package trap

import (
	"math"
	"strings"
)

// token is a random value of a parameter.
type token struct {
	name    uint64 // of the parameter, letter case ignored
	value   uint64
	session bool // the name is one of session numbers
}

const (
	minSession = 10 // bytes of a value whose parameter is named for session numbers
	minToken   = 16 // bytes of any other: random names have 64 bits and more
	maxToken   = 255
	// minEntropy, in bits a byte, parts random values from regular ones: 16
	// random hex digits have 3.2 on average.
	minEntropy = 2.3
)

// isToken says whether v looks random: long, of letters and digits (and the
// dividers of UUIDs and base64), changing between digits and letters or from
// lower to upper case more often than words do, and of high entropy. One in
// some thousand random values does not. If session is set, letters and digits
// are enough.
func isToken(v string, session bool) bool {
	if len(v) < minSession || len(v) > maxToken {
		return false
	}
	var counts [128]uint8
	changes, letters, digits, dividers := 0, 0, 0, 0
	last := byte(0)
	for i := range len(v) {
		c := v[i]
		kind := byte(0)
		switch {
		case '0' <= c && c <= '9':
			kind = 'd'
			digits++
		case 'a' <= c && c <= 'z':
			kind = 'l'
			letters++
		case 'A' <= c && c <= 'Z':
			kind = 'u'
			letters++
		case strings.IndexByte("-_.!~*", c) >= 0:
			dividers++
			last = 0
			continue
		default:
			return false
		}
		if last != 0 && kind != last && (last != 'u' || kind != 'l') {
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

// entropy returns Shannon's, in bits a byte, of n bytes counted.
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

// maxName is the longest name that can be one of session numbers.
const maxName = 24

// nameOf says whether name is one that frameworks and shops give to session
// numbers, and returns what tells names apart.
func nameOf(name string) (session bool, id uint64) {
	if len(name) > maxName {
		return false, hash(name)
	}
	var buf [maxName]byte
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
	case "(s())", "jsessionid", "phpsessid", "sessionid", "session_id", "session-id", "session", "sess", "sessid", "sess_id",
		"sid", "ssid", "nsid", "s_id", "cfid", "cftoken", "oscsid", "zenid", "xtsid", "phpsession", "sesskey", "sessionkey",
		"csrf", "_csrf", "csrftoken", "csrf_token", "authenticity_token", "nonce", "_wpnonce", "formkey", "form_key":
		return true, id
	}
	return strings.HasPrefix(string(low), "aspsessionid"), id
}
