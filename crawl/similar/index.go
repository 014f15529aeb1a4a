package similar

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"peerd/store"
)

const (
	// MaxIndex is the largest capacity of an Index.
	MaxIndex = 1 << 20

	blocks    = Near + 1 // of which at least one is equal in near-copies
	blockBits = 64 / blocks
	maxSteps  = 256 // candidates looked at in each table: the newest ones
	entrySize = 8 + 16
)

// ErrIndex is what ReadIndex wraps.
var ErrIndex = errors.New("similar: not an index")

// Index holds the Prints of the last pages of a host, and finds near-copies
// among them. An entry takes 56 bytes; it grows to its capacity and then
// forgets the oldest. One goroutine at a time.
//
// Each of the four tables chains entries with the same block, newest first.
// Entries are numbered as they come; the number says where an entry stands and
// whether it is still there, so that forgetting one takes no search.
type Index struct {
	capacity int
	entries  []entry // a ring once there are capacity of them
	added    uint32  // number of the newest entry; the first is 1
	heads    [blocks][]uint32
}

type entry struct {
	print Print
	id    store.Digest
	next  [blocks]uint32 // the entry before, in the chain of each table
}

// NewIndex returns an empty Index of at most capacity Prints, from 1 to
// MaxIndex.
func NewIndex(capacity int) *Index {
	return &Index{capacity: min(max(capacity, 1), MaxIndex)}
}

// Len returns the number of Prints held.
func (x *Index) Len() int { return len(x.entries) }

// Add puts in the Print of the page that id names: its URL's digest. Pages of
// equal Prints may all be put in, but the first is enough.
func (x *Index) Add(p Print, id store.Digest) {
	if x.added == math.MaxUint32 {
		x.renumber()
	}
	if n := len(x.entries); n < x.capacity {
		if n >= len(x.heads[0]) {
			x.rehash(min(max(2*n, 16), MaxIndex))
		}
		x.entries = append(x.entries, entry{})
	}
	x.added++
	x.put(x.added, p, id)
}

// put writes entry number n and puts it at the heads of its chains.
func (x *Index) put(n uint32, p Print, id store.Digest) {
	e := entry{print: p, id: id}
	for b := range blocks {
		head := x.head(b, p)
		e.next[b], *head = *head, n
	}
	*x.at(n) = e
}

// at returns where entry number n stands.
func (x *Index) at(n uint32) *entry { return &x.entries[int(n-1)%x.capacity] }

// head returns the head of the chain of block b of p. Heads are a power of two,
// so several blocks may share one.
func (x *Index) head(b int, p Print) *uint32 {
	h := mix(uint64(block(b, p))<<2 | uint64(b))
	return &x.heads[b][h&uint64(len(x.heads[b])-1)]
}

func block(b int, p Print) uint16 { return uint16(p >> (b * blockBits)) }

// oldest returns the number of the oldest entry.
func (x *Index) oldest() uint32 { return x.added - uint32(len(x.entries)) + 1 }

// Lookup returns the page whose Print is nearest to p, if it differs in at most
// Near bits; the newest of several. Of more than 256 pages that agree in a
// block only the newest are looked at, which bounds the time.
func (x *Index) Lookup(p Print) (id store.Digest, distance int, ok bool) {
	if len(x.entries) == 0 {
		return id, 0, false
	}
	best, number := Near+1, uint32(0)
	for b := range blocks {
		steps := 0
		for n := *x.head(b, p); n >= x.oldest() && n != 0 && steps < maxSteps; steps++ {
			e := x.at(n)
			if d := e.print.Distance(p); d < best || d == best && n > number {
				best, number, id = d, n, e.id
			}
			n = e.next[b]
		}
	}
	return id, best, best <= Near
}

// rehash makes new heads, and chains all entries anew.
func (x *Index) rehash(heads int) {
	size := 1
	for size < heads {
		size *= 2
	}
	for b := range blocks {
		x.heads[b] = make([]uint32, size)
	}
	for n := x.oldest(); n <= x.added && n != 0 && len(x.entries) > 0; n++ {
		e := *x.at(n)
		x.put(n, e.print, e.id)
	}
}

// renumber begins the numbers again.
func (x *Index) renumber() {
	n, _ := ReadIndex(x.Bytes(), x.capacity)
	*x = *n
}

const indexVersion = 1

// Bytes returns x as it is kept on disk: a version byte, then for each entry,
// oldest first, the Print (8 bytes, big-endian) and the id (16 bytes).
func (x *Index) Bytes() []byte {
	b := make([]byte, 1, 1+entrySize*len(x.entries))
	b[0] = indexVersion
	for i := range x.entries {
		e := x.at(x.oldest() + uint32(i))
		b = binary.BigEndian.AppendUint64(b, uint64(e.print))
		b = append(b, e.id[:]...)
	}
	return b
}

// ReadIndex reads what Bytes wrote, from anywhere, into an Index of at most
// capacity Prints, the newest. It fails with ErrIndex.
func ReadIndex(b []byte, capacity int) (*Index, error) {
	if len(b) < 1 || b[0] != indexVersion || (len(b)-1)%entrySize != 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrIndex, len(b))
	}
	x := NewIndex(capacity)
	b = b[1:]
	if extra := len(b) - x.capacity*entrySize; extra > 0 {
		b = b[extra:]
	}
	for ; len(b) > 0; b = b[entrySize:] {
		x.Add(Print(binary.BigEndian.Uint64(b)), store.Digest(b[8:entrySize]))
	}
	return x, nil
}
