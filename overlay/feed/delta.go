package feed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/klauspost/compress/zstd"

	"peerd/store/warc"
)

const (
	// minDelta and maxDelta bound the bodies of which the difference to the last version is sent,
	// in bytes, and maxVersions the pages of which a peer remembers where the last version is.
	minDelta, maxDelta = 1 << 10, 2 << 20
	maxVersions        = 1 << 15
	// maxWhole bounds the bodies to which the differences of a packet lead: a packet is sent with
	// the one that exceeds it. Bytes.
	maxWhole = 16 << 20
)

// version is a page that was archived.
type version struct {
	at   warc.Location
	time time.Time
}

// before reports whether v comes before an exchange in the archive of which the place is at.
func (v version) before(at warc.Location) bool {
	return cmp.Or(cmp.Compare(v.at.File, at.File), cmp.Compare(v.at.Offset, at.Offset)) < 0
}

// hasDeltas reports whether differences of the page can be sent: its body is whole, and as it was
// before it was compressed.
func hasDeltas(x *warc.Exchange) bool {
	return x.Revisit == nil && x.Truncated == "" && len(x.Body) >= minDelta &&
		len(x.Body) <= maxDelta &&
		!bytes.Contains(bytes.ToLower(x.Response), []byte("\r\ncontent-encoding:"))
}

// difference replaces the body of an item by its difference to the last version that was sent, if
// that is in the archive and the difference is much smaller.
func (s *Server) difference(i *item, x *warc.Exchange) {
	s.mu.Lock()
	old, ok := s.versions.Get(x.URL)
	s.mu.Unlock()
	if !ok || !old.before(x.At) {
		return
	}
	c, err := s.Archive.ReadAt(old.at)
	if err != nil || c.URL != x.URL || len(c.Body) > maxDelta {
		return
	}
	d, err := diff(c.Body, x.Body)
	if err == nil && len(d) < len(x.Body)/2 {
		i.Base, i.Body = old.time.UnixNano(), d
	}
}

// sent notes the versions of a packet that the collector has.
func (s *Server) sent(all map[string]version) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for u, v := range all {
		if old, ok := s.versions.Get(u); !ok || old.before(v.at) {
			s.versions.Add(u, v)
		}
	}
}

// diff returns the difference of a body to an earlier one: it is compressed (zstd) with that as
// dictionary.
func diff(base, body []byte) ([]byte, error) {
	window := max(zstd.MinWindowSize, 1<<bits.Len(uint(len(base)+len(body))))
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(window),
		zstd.WithEncoderDictRaw(1, base))
	if err != nil {
		return nil, err
	}
	return enc.EncodeAll(body, nil), nil
}

// patch is the inverse of diff.
func patch(base, difference []byte) ([]byte, error) {
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(maxDelta), zstd.WithDecoderDictRaw(1, base))
	if err != nil {
		return nil, err
	}
	defer dec.Close()
	body, err := dec.DecodeAll(difference, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: difference to the last version: %w", ErrPacket, err)
	}
	return body, nil
}

// errPlain means that a collector wants a packet without differences.
var errPlain = errors.New("feed: wanted without differences")
