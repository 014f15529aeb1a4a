package peers

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// Bounds of what one exchange tells of third peers.
const (
	maxHave   = 512 // tags; a larger directory is told in part, a random one
	maxOthers = 64  // beacons
)

// aged is a beacon on its way through a third peer.
type aged struct {
	Sealed []byte `cbor:"1,keyasint"`
	// Age is how long ago it was heard from its maker. Milliseconds.
	Age int64 `cbor:"2,keyasint"`
}

// tag stands for one state of one peer's beacon: 8 bytes for some 300. Two
// states that share a tag by chance cost one beacon its passing on, once.
func tag(b Beacon) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(b.Peer)) // never fails
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, b.Seq))
	return h.Sum64()
}

// have lists the tags of the peers that are present, at most maxHave.
func (d *Directory) have() []uint64 {
	now := d.cfg.Now()
	d.mu.RLock()
	tags := make([]uint64, 0, len(d.entries))
	for _, e := range d.entries {
		if d.present(e, now) {
			tags = append(tags, tag(e.beacon))
		}
	}
	d.mu.RUnlock()
	rand.Shuffle(len(tags), func(a, b int) { tags[a], tags[b] = tags[b], tags[a] })
	return tags[:min(len(tags), maxHave)]
}

// lacking lists beacons of present peers whose tags are not in have, at most
// maxOthers. Map order is random enough for those that do not fit.
func (d *Directory) lacking(have []uint64) []aged {
	known := make(map[uint64]bool, len(have))
	for _, t := range have {
		known[t] = true
	}
	now := d.cfg.Now()
	var out []aged
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, e := range d.entries {
		if len(out) == maxOthers {
			break
		}
		if d.present(e, now) && !known[tag(e.beacon)] {
			out = append(out, aged{Sealed: e.sealed, Age: now.Sub(e.heard).Milliseconds()})
		}
	}
	return out
}

// age is what was said, made safe.
func (a aged) age() time.Duration {
	const most = int64(time.Hour / time.Millisecond)
	if a.Age < 0 || a.Age > most {
		return time.Hour // beyond every TTL: refused
	}
	return time.Duration(a.Age) * time.Millisecond
}
