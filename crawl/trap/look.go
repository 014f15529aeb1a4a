package trap

import (
	"strings"
	"unicode/utf8"

	"peerd/store"
)

// What is looked at of one URL; the rest of it has no say in the counting
// heuristics.
const (
	maxParts  = 64 // segments, and parameters
	maxRuns   = 16 // runs of digits
	maxTokens = 4  // random values
	longHex   = 16 // digits from which a hex number is one
)

// Marks of what a shape leaves out. They are no bytes of a canonical URL.
const (
	markNumber = iota
	markHex
	markToken
)

// span is a part of a text.
type span struct{ lo, hi int }

func (p span) of(s string) string { return s[p.lo:p.hi] }

// features is what the heuristics read of one URL.
type features struct {
	s     string // from the path on
	path  uint64 // shape of origin and path
	shape uint64 // the same with the query
	names uint64 // names of the parameters, in order

	segments, params int // all of them
	segs, pairs      [maxParts]span
	nsegs, npairs    int
	options          int // parameters, and the parts of values that are lists
	digits           bool
	runs             [maxRuns]run
	nruns            int
	tokens           [maxTokens]token
	ntokens          int
	role             role // of the parameter whose value is being read
}

// look reads u in one pass.
func (f *features) look(u store.URL) {
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
	f.readPath(end)
	f.path = f.shape
	f.readQuery(query)
}

// readPath reads the path, which ends at end. A trailing slash begins no
// segment.
func (f *features) readPath(end int) {
	for at := 0; at < end; {
		lo := at + 1 // behind a slash
		hi := end
		if i := strings.IndexByte(f.s[lo:end], '/'); i >= 0 {
			hi = lo + i
		}
		f.fold('/')
		if lo < hi || hi < end {
			f.segments++
			if f.nsegs < maxParts {
				f.segs[f.nsegs] = span{lo, hi}
				f.nsegs++
			}
			f.segment(span{lo, hi})
		}
		at = hi
	}
}

// segment reads one segment with its path parameters (RFC 3986, section 3.3):
// name;key=value. ASP.NET writes sessions as a segment of their own:
// (S(value)).
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

// readQuery reads the parameters, which begin at lo and are divided by & or ;.
func (f *features) readQuery(lo int) {
	f.names = fnvOffset
	for lo < len(f.s) {
		hi := len(f.s)
		if i := strings.IndexAny(f.s[lo:], "&;"); i >= 0 {
			hi = lo + i
		}
		f.fold('&')
		f.params++
		f.options++
		if f.npairs < maxParts {
			f.pairs[f.npairs] = span{lo, hi}
			f.npairs++
		}
		f.param(span{lo, hi})
		lo = hi + 1
	}
}

// param reads one parameter of the query.
func (f *features) param(p span) {
	name, value, _ := strings.Cut(p.of(f.s), "=")
	for i := range len(name) {
		f.names = (f.names ^ uint64(name[i])) * fnvPrime
	}
	f.names = (f.names ^ '&') * fnvPrime
	f.text(span{p.lo, p.lo + len(name)})
	f.fold('=')
	at := p.lo + len(name) + 1
	f.value(name, span{min(at, p.hi), p.hi})
	if strings.ContainsAny(value, ",|%") {
		f.options += strings.Count(value, ",") + strings.Count(value, "|") + strings.Count(value, "%2C") + strings.Count(value, "%7C")
	}
}

// value reads the value of a named parameter.
func (f *features) value(name string, p span) {
	v := p.of(f.s)
	if len(v) < minSession {
		f.role = roleOf(name)
		f.text(p)
		f.role = roleNone
		return
	}
	known, id := nameOf(name)
	if isToken(v, known) {
		if f.ntokens < maxTokens {
			f.tokens[f.ntokens] = token{name: id, value: hash(v), session: known}
			f.ntokens++
		}
		f.fold(markToken)
		return
	}
	f.text(p)
}

// text folds a part of the URL into the shape, digits and long hex numbers
// replaced.
func (f *features) text(p span) {
	for i := p.lo; i < p.hi; {
		c := f.s[i]
		switch {
		case classes[c] != classOther:
			i = f.word(span{i, p.hi})
		case c == '%': // an escape: its digits are none
			for end := min(i+3, p.hi); i < end; i++ {
				f.fold(f.s[i])
			}
		default:
			f.fold(c)
			i++
		}
	}
}

// word folds the letters and digits that p begins with, and returns their end.
func (f *features) word(p span) int {
	end := p.lo
	var seen class
	for end < p.hi && classes[f.s[end]] != classOther {
		seen |= classes[f.s[end]]
		end++
	}
	if end-p.lo >= longHex && seen == classDigit|classHex {
		f.fold(markHex)
		return end
	}
	if seen&classDigit == 0 {
		for i := p.lo; i < end; i++ {
			f.fold(f.s[i])
		}
		return end
	}
	for i := p.lo; i < end; {
		if classes[f.s[i]] != classDigit {
			f.fold(f.s[i])
			i++
			continue
		}
		i = f.number(span{i, end})
	}
	return end
}

// number folds the digits that p begins with, keeps them for the dates, and
// returns their end.
func (f *features) number(p span) int {
	r := run{span: span{p.lo, p.lo}, role: f.role}
	for r.hi < p.hi && classes[f.s[r.hi]] == classDigit {
		if r.hi-r.lo < 9 {
			r.n = 10*r.n + int(f.s[r.hi]-'0')
		}
		r.hi++
	}
	f.digits = true
	if f.nruns < maxRuns {
		f.runs[f.nruns] = r
		f.nruns++
	}
	f.fold(markNumber)
	return r.hi
}

// FNV-1a; mix is the finalizer of MurmurHash3.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (f *features) fold(c byte) { f.shape = (f.shape ^ uint64(c)) * fnvPrime }

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
