package tool

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// maxLine bounds a line of input, in bytes: more than any valid URL with its base.
const maxLine = 256 << 10

// Query is a URL with the base to resolve it against.
type Query struct{ Input, Base string }

// ParseQuery parses a line: after its last tab it may have a base.
func ParseQuery(line string) Query {
	if i := strings.LastIndexByte(line, '\t'); i >= 0 {
		return Query{line[:i], line[i+1:]}
	}
	return Query{Input: line}
}

// scalarValues replaces each surrogate, as written by programs that keep text in UTF-16, by
// U+FFFD, as browsers do for URLs of scripts (Infra Standard, "scalar value string"). The parser
// replaces each other byte that is not UTF-8.
func scalarValues(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == 0xED && i+2 < len(s) && s[i+1]&0xE0 == 0xA0 && s[i+2]&0xC0 == 0x80 {
			b.WriteRune(utf8.RuneError)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// ReadAtMost reads at most limit bytes of r; more reports that r has more.
func ReadAtMost(r io.Reader, limit int64) (data []byte, more bool, err error) {
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], true, err
	}
	return data, false, err
}

// Lines returns the lines of r, including empty ones, without their ends (LF or CRLF). It truncates
// a line to maxLine, which is too long for a URL. An error of r comes last.
func Lines(r io.Reader) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := bufio.NewReader(r)
		var line strings.Builder
		for {
			part, more, err := in.ReadLine()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield("", err)
				return
			}
			line.Write(part[:min(len(part), maxLine-line.Len())])
			if more {
				continue
			}
			text := line.String()
			line.Reset()
			if !yield(text, nil) {
				return
			}
		}
	}
}
