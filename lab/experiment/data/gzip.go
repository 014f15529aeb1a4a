package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
)

// plain returns a reader of r that decompresses gzip, which it recognises by the first bytes.
func plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(in)
	}
	return in, nil
}
