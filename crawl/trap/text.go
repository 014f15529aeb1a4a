package trap

import (
	"encoding/binary"
	"fmt"

	"peerd/crawl/similar"
)

// Text says whether the text of a page is new.
type Text uint8

// The results of a comparison.
const (
	TextUnknown Text = iota // not compared
	TextNew
	TextCopy // the same or nearly the same as that of another page of the host
)

const (
	maxTexts = 128 // texts remembered
	// One page for every interval of new links is compared, a page counting at least as one
	// link, because a comparison costs as much as reading the page. After a copy, the
	// interval is one. It doubles after freshTexts texts that are new.
	maxInterval, freshTexts = 16, 8
)

// texts are the texts of a host that were compared last, and which page to compare next.
type texts struct {
	hashes   []similar.Simhash // distinct, least recently found first
	links    uint32            // since the last comparison
	interval uint32            // 0 means maxInterval
	fresh    uint32            // new texts since the interval changed
}

// Due reports whether the text of the next page of the host should be compared.
func (s *State) Due() bool {
	t := &s.texts
	return t.links >= maxInterval || t.interval > 0 && t.links >= t.interval
}

// Compare compares a text with the last different texts of the host and remembers it.
func (s *State) Compare(h similar.Simhash) Text {
	t := &s.texts
	s.dirty = true
	t.links = 0
	for i, old := range t.hashes {
		if h.Distance(old) <= similar.Near {
			t.hashes = append(append(t.hashes[:i], t.hashes[i+1:]...), old)
			t.interval, t.fresh = 1, 0
			return TextCopy
		}
	}
	if len(t.hashes) == maxTexts {
		t.hashes = append(t.hashes[:0], t.hashes[1:]...)
	}
	t.hashes = append(t.hashes, h)
	if t.fresh++; t.fresh == freshTexts && t.interval > 0 {
		t.interval, t.fresh = min(2*t.interval, maxInterval), 0
	}
	return TextNew
}

// appendTo appends the encoded form: the numbers as uvarints, and 8 bytes for each text.
func (t *texts) appendTo(b []byte) []byte {
	for _, n := range []uint32{t.links, t.interval, t.fresh} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, h := range t.hashes {
		b = binary.BigEndian.AppendUint64(b, uint64(h))
	}
	return b
}

// read decodes the result of appendTo, possibly from an untrusted source.
func (t *texts) read(b []byte) error {
	for _, to := range []*uint32{&t.links, &t.interval, &t.fresh} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > 1<<32-1 {
			return fmt.Errorf("%w: texts", ErrState)
		}
		*to, b = uint32(n), b[size:]
	}
	if len(b)%8 != 0 || len(b) > 8*maxTexts || t.interval > maxInterval {
		return fmt.Errorf("%w: %d bytes of texts", ErrState, len(b))
	}
	for ; len(b) > 0; b = b[8:] {
		t.hashes = append(t.hashes, similar.Simhash(binary.BigEndian.Uint64(b)))
	}
	return nil
}
