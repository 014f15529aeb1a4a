package trap

import (
	"strings"
	"unicode/utf8"

	"peerd/store"
)

// Limits of what is examined of one URL. The rest does not matter to the counting
// heuristics.
const (
	maxParts  = 64 // segments, and parameters
	maxTokens = 4  // random values
	longHex   = 8  // minimum digits of a hexadecimal number
	minChange = 3  // changes between letters and digits that make a word an identifier
)

// mark replaces numbers and random values in a shape. It is not a byte of a canonical URL.
const mark = 0

// span is a part of a string.
type span struct{ lo, hi int }

func (p span) of(s string) string { return s[p.lo:p.hi] }

// features is what the heuristics read from one URL.
type features struct {
	s      string // from the path on
	shape  uint64 // of the whole URL; the order of the parameters does not matter
	path   uint64 // shape of origin and path
	folder uint64 // shape of origin and path up to the last slash
	names  uint64 // hash of the set of parameter names
	marks  int    // values replaced in shape
	words  int    // other bytes folded into shape

	segments, params int // total numbers
	segs, pairs      [maxParts]span
	nsegs, npairs    int
	options          int // parameters, and elements of values that are lists
	tokens           [maxTokens]token
	ntokens          int
}

// parse reads u in one pass.
func (f *features) parse(u store.URL) {
	s := string(u)
	start := 0
	if i := strings.Index(s, "://"); i >= 0 {
		start = i + len("://")
	}
	if i := strings.IndexAny(s[start:], "/?"); i >= 0 {
		start += i
	} else {
		start = len(s)
	}
	f.shape = fnvOffset
	for i := range start {
		f.fold(s[i])
	}
	f.s = s[start:]
	end, query := len(f.s), len(f.s)
	if i := strings.IndexByte(f.s, '?'); i >= 0 {
		end, query = i, i+1
	}
	f.folder = f.shape
	f.readPath(end)
	f.path = f.shape
	f.readQuery(query)
}

// readPath reads the path, which ends at end. A trailing slash does not start a segment. In
// the shape, consecutive segments that consist of marks only count once, so that a maze of
// any depth has one shape.
func (f *features) readPath(end int) {
	variable := false // the previous segment
	for at := 0; at < end; {
		lo := at + 1 // after a slash
		hi := end
		if i := strings.IndexByte(f.s[lo:end], '/'); i >= 0 {
			hi = lo + i
		}
		before, marks, words := f.shape, f.marks, f.words
		f.fold('/')
		f.folder = f.shape
		if lo < hi || hi < end {
			f.segments++
			if f.nsegs < maxParts {
				f.segs[f.nsegs] = span{lo, hi}
				f.nsegs++
			}
			f.segment(span{lo, hi})
		}
		now := f.marks > marks && f.words == words+1
		if now && variable {
			f.shape = before
		}
		variable = now
		at = hi
	}
}

// segment reads one segment with its path parameters (RFC 3986, section 3.3):
// name;key=value. ASP.NET writes a session as a separate segment: (S(value)).
func (f *features) segment(p span) {
	seg := p.of(f.s)
	if strings.HasPrefix(seg, "(S(") && strings.HasSuffix(seg, "))") {
		f.value("(s())", span{p.lo + 3, p.hi - 2})
		return
	}
	for {
		i := strings.IndexByte(p.of(f.s), ';')
		if i < 0 {
			f.text(p)
			return
		}
		f.text(span{p.lo, p.lo + i})
		f.fold(';')
		rest := span{p.lo + i + 1, p.hi}
		param := rest.of(f.s)
		if j := strings.IndexByte(param, ';'); j >= 0 {
			param = param[:j]
		}
		if name, value, ok := strings.Cut(param, "="); ok {
			f.text(span{rest.lo, rest.lo + len(name)})
			f.value(name, span{rest.lo + len(name) + 1, rest.lo + len(name) + 1 + len(value)})
			rest.lo += len(param)
		}
		p = rest
	}
}

// readQuery reads the parameters, which start at lo and are separated by & or ;.
func (f *features) readQuery(lo int) {
	sum := f.shape
	for lo < len(f.s) {
		hi := len(f.s)
		if i := strings.IndexAny(f.s[lo:], "&;"); i >= 0 {
			hi = lo + i
		}
		f.shape = fnvOffset
		f.params++
		f.options++
		if f.npairs < maxParts {
			f.pairs[f.npairs] = span{lo, hi}
			f.npairs++
		}
		f.param(span{lo, hi})
		sum += mix(f.shape)
		lo = hi + 1
	}
	f.shape = sum
}

// param reads one parameter of the query.
func (f *features) param(p span) {
	name, value, _ := strings.Cut(p.of(f.s), "=")
	f.names += hash(name)
	f.text(span{p.lo, p.lo + len(name)})
	f.fold('=')
	at := p.lo + len(name) + 1
	f.value(name, span{min(at, p.hi), p.hi})
	if strings.ContainsAny(value, ",|%") {
		f.options += strings.Count(value, ",") + strings.Count(value, "|") + strings.Count(value,
			"%2C") + strings.Count(value, "%7C")
	}
}

// value reads the value of a named parameter.
func (f *features) value(name string, p span) {
	v := p.of(f.s)
	if len(v) < minSession {
		f.text(p)
		return
	}
	known, id := sessionName(name)
	if isToken(v, known) {
		if f.ntokens < maxTokens {
			f.tokens[f.ntokens] = token{name: id, value: hash(v), session: known}
			f.ntokens++
		}
		f.mark()
		return
	}
	f.text(p)
}

// text adds a part of the URL to the shape, with numbers and identifiers replaced.
func (f *features) text(p span) {
	for i := p.lo; i < p.hi; {
		c := f.s[i]
		switch {
		case classes[c] != classOther:
			i = f.word(span{i, p.hi})
		case c == '%': // an escape: its digits do not count
			for end := min(i+3, p.hi); i < end; i++ {
				f.fold(f.s[i])
			}
		default:
			f.fold(c)
			i++
		}
	}
}

// word adds the letters and digits at the start of p to the shape and returns their end. A
// long hexadecimal number, and a word that alternates between letters and digits, is
// replaced as a whole; in others each run of digits is.
func (f *features) word(p span) int {
	end, changes := p.lo, 0
	var seen, last class
	for end < p.hi && classes[f.s[end]] != classOther {
		c := classes[f.s[end]]
		if end > p.lo && (c == classDigit) != (last == classDigit) {
			changes++
		}
		seen, last = seen|c, c
		end++
	}
	if changes >= minChange || end-p.lo >= longHex && seen == classDigit|classHex {
		f.mark()
		return end
	}
	for i := p.lo; i < end; i++ {
		switch {
		case classes[f.s[i]] != classDigit:
			f.fold(f.s[i])
		case i == p.lo || classes[f.s[i-1]] != classDigit:
			f.mark()
		}
	}
	return end
}

// mark adds a replaced value to the shape.
func (f *features) mark() {
	f.marks++
	f.shape = (f.shape ^ mark) * fnvPrime
}

// FNV-1a; mix is the finalizer of MurmurHash3.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (f *features) fold(c byte) {
	f.words++
	f.shape = (f.shape ^ uint64(c)) * fnvPrime
}

func hash(s string) uint64 {
	h := uint64(fnvOffset)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// class of a byte.
type class uint8

const (
	classDigit class = 1 << iota
	classHex         // letters that are hex digits
	classLetter
	classOther class = 0
)

var classes = func() (t [256]class) {
	for c := range utf8.RuneSelf {
		switch {
		case '0' <= c && c <= '9':
			t[c] = classDigit
		case 'a' <= c && c <= 'f', 'A' <= c && c <= 'F':
			t[c] = classHex
		case 'g' <= c && c <= 'z', 'G' <= c && c <= 'Z':
			t[c] = classLetter
		}
	}
	return t
}()
