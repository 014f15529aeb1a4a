package data

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
)

// plain reads r, unpacked if it is gzip, which its first bytes tell.
func plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(in)
	}
	return in, nil
}
