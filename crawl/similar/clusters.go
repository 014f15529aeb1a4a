package similar

import (
	"encoding/binary"
	"errors"
	"fmt"

	"peerd/store"
)

// MaxClusters is the number of digests that a Clusters follows.
const MaxClusters = 128

// ErrClusters is what UnmarshalBinary wraps.
var ErrClusters = errors.New("similar: not clusters")

// Clusters counts how many pages of a host have the same digest, for the
// digests that come most often (Space-Saving: Metwally, Agrawal, El Abbadi
// 2005). For near-copies, add the digest of the first of them, as the Index
// found it. The zero Clusters is empty; it takes at most 3 KiB. One goroutine
// at a time.
type Clusters struct{ list []cluster }

type cluster struct {
	digest store.Digest
	count  uint32
	extra  uint32 // how much of count may be others'
}

const clusterSize = 16 + 4 + 4

// Add counts a page, and returns how many pages certainly had digest d, this
// one included.
func (c *Clusters) Add(d store.Digest) int {
	least := -1
	for i := range c.list {
		at := &c.list[i]
		if at.digest == d {
			if at.count < 1<<32-1 {
				at.count++
			}
			return int(at.count - at.extra)
		}
		if least < 0 || at.count < c.list[least].count {
			least = i
		}
	}
	if len(c.list) < MaxClusters {
		c.list = append(c.list, cluster{digest: d, count: 1})
		return 1
	}
	at := &c.list[least]
	*at = cluster{digest: d, count: at.count + 1, extra: at.count}
	if at.count == 0 { // it was at its end
		*at = cluster{digest: d, count: 1}
	}
	return 1
}

// Count returns how many pages certainly had digest d.
func (c *Clusters) Count(d store.Digest) int {
	for _, at := range c.list {
		if at.digest == d {
			return int(at.count - at.extra)
		}
	}
	return 0
}

// MarshalBinary implements encoding.BinaryMarshaler: digest, count and extra
// (big-endian) of each cluster.
func (c *Clusters) MarshalBinary() ([]byte, error) {
	b := make([]byte, 0, clusterSize*len(c.list))
	for _, at := range c.list {
		b = append(b, at.digest[:]...)
		b = binary.BigEndian.AppendUint32(b, at.count)
		b = binary.BigEndian.AppendUint32(b, at.extra)
	}
	return b, nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler for bytes from
// anywhere. It fails with ErrClusters, and leaves c alone.
func (c *Clusters) UnmarshalBinary(b []byte) error {
	if len(b)%clusterSize != 0 || len(b) > clusterSize*MaxClusters {
		return fmt.Errorf("%w: %d bytes", ErrClusters, len(b))
	}
	var n Clusters
	for ; len(b) > 0; b = b[clusterSize:] {
		at := cluster{
			digest: store.Digest(b[:16]),
			count:  binary.BigEndian.Uint32(b[16:]),
			extra:  binary.BigEndian.Uint32(b[20:]),
		}
		if at.extra >= at.count || n.Count(at.digest) > 0 {
			return fmt.Errorf("%w: %x", ErrClusters, at.digest)
		}
		n.list = append(n.list, at)
	}
	*c = n
	return nil
}
