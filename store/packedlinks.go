package store

import (
	"encoding/binary"
	"errors"
	"slices"
)

// maxLinkBytes is the maximum total length of the links of a stored page.
const maxLinkBytes = 256 << 20

var errPackedLinks = errors.New("invalid links")

// packLinks encodes the links of a page. Each is stored as the length of the prefix that it shares
// with the one before, the first with the URL of the page, and the rest (front coding). The total
// length of the links precedes them; all lengths are varints.
func packLinks(page URL, links []URL) []byte {
	if len(links) == 0 {
		return nil
	}
	total := 0
	for _, u := range links {
		total += len(u)
	}
	b := binary.AppendUvarint(make([]byte, 0, 16+total/2), uint64(total))
	for last := page; len(links) > 0; links = links[1:] {
		u := links[0]
		shared := 0
		for shared < min(len(u), len(last)) && u[shared] == last[shared] {
			shared++
		}
		b = binary.AppendUvarint(b, uint64(shared))
		b = binary.AppendUvarint(b, uint64(len(u)-shared))
		b = append(b, u[shared:]...)
		last = u
	}
	return b
}

// unpackLinks decodes the result of packLinks. The links share memory.
func unpackLinks(page URL, b []byte) ([]URL, error) {
	if len(b) == 0 {
		return nil, nil
	}
	total, n := binary.Uvarint(b)
	if n <= 0 || total > maxLinkBytes {
		return nil, errPackedLinks
	}
	b = b[n:]
	text, ends := make([]byte, 0, total), []int(nil)
	for last := []byte(page); len(b) > 0; {
		shared, n := binary.Uvarint(b)
		if n <= 0 || shared > uint64(len(last)) {
			return nil, errPackedLinks
		}
		b = b[n:]
		rest, n := binary.Uvarint(b)
		if n <= 0 || rest > uint64(len(b)-n) || shared+rest > total-uint64(len(text)) {
			return nil, errPackedLinks
		}
		start := len(text)
		text = append(append(text, last[:shared]...), b[n:n+int(rest)]...)
		b, last = b[n+int(rest):], text[start:]
		ends = append(ends, len(text))
	}
	if uint64(len(text)) != total {
		return nil, errPackedLinks
	}
	s, start := URL(text), 0
	links := slices.Grow([]URL(nil), len(ends))
	for _, end := range ends {
		links = append(links, s[start:end])
		start = end
	}
	return links, nil
}
