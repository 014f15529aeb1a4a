package tool

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// maxLine bounds a line of input, in bytes: more than any URL that is taken,
// with its base.
const maxLine = 256 << 10

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
