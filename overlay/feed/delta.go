package feed

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store/warc"
)

const (
	// minDelta and MaxDelta bound the bodies of which the difference to the last version is sent,
	// and those of the last versions, in bytes, and maxVersions the pages of which a peer remembers
	// where the last version is.
	minDelta, MaxDelta = 1 << 10, 2 << 20
	maxVersions        = 1 << 15
	// maxWhole bounds the bodies to which the differences of a packet lead, with the last versions:
	// a packet is sent with the one that exceeds it. Bytes.
	maxWhole = 32 << 20
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
		len(x.Body) <= MaxDelta &&
		!bytes.Contains(bytes.ToLower(x.Response), []byte("\r\ncontent-encoding:"))
}

// difference replaces the body of an item by its difference to the last version that was sent, if
// that is in the archive and the difference is much smaller. whole is the size of both bodies.
func (s *Server) difference(i *item, x *warc.Exchange) (whole int) {
	s.mu.Lock()
	old, ok := s.versions.Get(x.URL)
	s.mu.Unlock()
	if !ok || !old.before(x.At) {
		return 0
	}
	c, err := s.Archive.ReadAt(old.at)
	if err != nil || c.URL != x.URL || len(c.Body) > MaxDelta {
		return 0
	}
	d, err := diff(c.Body, x.Body)
	if err != nil || len(d) >= len(x.Body)/2 {
		return 0
	}
	i.Base, i.Body = old.time.UnixNano(), d
	return len(c.Body) + len(x.Body)
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

// A memory counts the bytes that are about to be allocated for a packet, as wire.Conn.Use does.
type memory func(bytes int) error

// within returns m with a limit. Errors wrap errPlain: without differences a packet takes less.
func (m memory) within(most int) memory {
	return func(n int) error {
		if most -= n; most < 0 {
			return fmt.Errorf("%w: the pages are too large", errPlain)
		}
		if err := m(n); err != nil {
			return fmt.Errorf("%w: %w", errPlain, err)
		}
		return nil
	}
}

// whole replaces the difference in an item of p by the body.
func (c *Collector) whole(p peer.ID, i *item, use memory) error {
	base, ok := c.Sink.Version(p, i.URL, time.Unix(0, i.Base))
	if !ok {
		return fmt.Errorf("%w: the last version of a page is missing", errPlain)
	}
	err := use(len(base))
	if err == nil {
		i.Body, err = patch(base, i.Body, use)
	}
	return err
}

// patch is the inverse of diff.
func patch(base, difference []byte, use memory) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(difference); err != nil {
		return nil, fmt.Errorf("%w: difference: %w", ErrPacket, err)
	}
	if h.FrameContentSize < minDelta || h.FrameContentSize > MaxDelta {
		return nil, fmt.Errorf("%w: difference that leads to %d bytes", ErrPacket,
			h.FrameContentSize)
	}
	if err := use(int(h.FrameContentSize)); err != nil {
		return nil, err
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderMaxMemory(h.FrameContentSize), zstd.WithDecoderDictRaw(1, base))
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
