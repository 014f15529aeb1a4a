package tool

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"
)

// maxLine bounds a line of input, in bytes: more than any URL that is taken,
// with its base.
const maxLine = 256 << 10

// Question is a URL to be told about, and what it is resolved against.
type Question struct{ Input, Base string }

// ReadQuestion reads a line: behind its last tab it may have a base.
func ReadQuestion(line string) Question {
	if i := strings.LastIndexByte(line, '\t'); i >= 0 {
		return Question{line[:i], line[i+1:]}
	}
	return Question{Input: line}
}

// ErrQuestion is returned for what is no question in JSON.
var ErrQuestion = errors.New(`not a JSON object with a string "input" and perhaps a string "base"`)

// ReadQuestionJSON reads a line that is a JSON object with the keys input and
// base; others are ignored. The base may be missing or null. So a URL can have
// tabs and line ends.
func ReadQuestionJSON(line string) (Question, error) {
	var q struct{ Input, Base *string }
	if len(line) >= maxLine || json.Unmarshal([]byte(line), &q) != nil || q.Input == nil {
		return Question{}, ErrQuestion
	}
	if q.Base == nil {
		q.Base = new(string)
	}
	return Question{*q.Input, *q.Base}, nil
}

// scalars replaces half surrogate pairs, as programs write them that keep text
// in UTF-16, by U+FFFD, one for each: so scripts in browsers hand URLs over
// (Infra Standard, "scalar value string"). Other bytes that are no UTF-8 become
// one each when they are parsed.
func scalars(s string) string {
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

// ReadAtMost reads r, but no more than limit bytes; more says that there are
// more.
func ReadAtMost(r io.Reader, limit int64) (data []byte, more bool, err error) {
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if int64(len(data)) > limit {
		return data[:limit], true, err
	}
	return data, false, err
}

// Lines calls yield for each line of r, without its end (LF or CRLF), empty
// ones too. Of a line longer than maxLine only that much is kept, which is
// still too long to be a URL. It stops at the first error of yield.
func Lines(r io.Reader, yield func(line string) error) error {
	in := bufio.NewReader(r)
	var line strings.Builder
	for {
		part, more, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line.Write(part[:min(len(part), maxLine-line.Len())])
		if more {
			continue
		}
		text := line.String()
		line.Reset()
		if err := yield(text); err != nil {
			return err
		}
	}
}
