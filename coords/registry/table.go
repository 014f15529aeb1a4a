package registry

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// Errors of Build and of functions that read tables.
var (
	// ErrEntry is returned for an entry that cannot be in a table.
	ErrEntry = errors.New("registry: bad entry")
)

// Entry is a block of addresses and its holder.
type Entry struct {
	// Prefix is the block; its host bits are zero.
	Prefix netip.Prefix
	// Holder is "registry:opaque-id", comparable within one Table only. Empty: the
	// registry's own block, or one without a holder.
	Holder string
	// Registry is the registry's name, such as "ripencc". May be empty.
	Registry string
	// Country is the holder's country, two capital letters as in ISO 3166; "EU", "AP" and
	// "ZZ" occur. May be empty.
	Country string
}

// Limits of a Table.
const (
	// MaxEntries bounds a table: twelve times the number of entries of all registries.
	MaxEntries = 8 << 20
	// maxHolder bounds the length of a holder's name in bytes.
	maxHolder = 128
	// maxRegistry bounds the length of a registry's name in bytes.
	maxRegistry = 16
	// maxRegistries bounds the number of registries in a table.
	maxRegistries = 255
)

// Table holds entries as a tree: an entry is below the smallest other one that contains
// it. It is immutable and safe for concurrent use. The zero Table is empty.
type Table struct {
	// blocks are sorted by address, IPv4 first, a block before those inside it: a subtree is
	// a contiguous range.
	blocks []block
	// v4 is the number of IPv4 blocks.
	v4 int
	// index maps prefixes to indices of blocks.
	index *bart.Table[uint32]
	// holders are sorted; holder 0 stands for none.
	holders    []string
	registries []string
	// held lists the blocks of each holder: those of holder h are
	// held[heldFrom[h]:heldFrom[h+1]].
	held     []uint32
	heldFrom []uint32
}

// block is an Entry and its position in the tree in 32 bytes without pointers.
type block struct {
	hi, lo uint64
	// holder is an index of Table.holders.
	holder uint32
	// end is the index of the first block behind the subtree.
	end uint32
	// parent is the index of the enclosing block, or noBlock.
	parent uint32
	bits   uint8
	// registry is an index of Table.registries.
	registry uint8
	country  [2]byte
}

// noBlock is an invalid index.
const noBlock = ^uint32(0)

// Build returns a table of the entries. Of entries with the same prefix it uses the
// first with a holder, otherwise the first. The entries are neither changed nor kept.
// The error wraps ErrEntry and names the first bad entry.
func Build(entries []Entry) (*Table, error) {
	if len(entries) > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries, at most %d are taken", ErrEntry, len(entries),
			MaxEntries)
	}
	t := &Table{}
	if err := t.intern(entries); err != nil {
		return nil, err
	}
	t.link()
	return t, nil
}

// intern fills blocks, holders and registries, sorted and without duplicates.
func (t *Table) intern(entries []Entry) error {
	holders := map[string]uint32{"": 0}
	for _, e := range entries {
		if err := e.validate(); err != nil {
			return err
		}
		holders[e.Holder] = 0
	}
	t.holders = make([]string, 0, len(holders))
	for h := range holders {
		t.holders = append(t.holders, h)
	}
	slices.Sort(t.holders)
	for i, h := range t.holders {
		holders[h] = uint32(i)
	}
	registries := map[string]uint8{}
	t.blocks = make([]block, 0, len(entries))
	for _, e := range entries {
		r, ok := registries[e.Registry]
		if !ok {
			if len(registries) == maxRegistries {
				return fmt.Errorf("%w: %s names registry %q, and %d others are there already",
					ErrEntry, e.Prefix, e.Registry, maxRegistries)
			}
			r = uint8(len(registries))
			registries[e.Registry] = r
			t.registries = append(t.registries, e.Registry)
		}
		b := blockOf(e.Prefix)
		b.holder, b.registry = holders[e.Holder], r
		copy(b.country[:], e.Country)
		if e.Prefix.Addr().Is4() {
			t.v4++
		}
		t.blocks = append(t.blocks, b)
	}
	// IPv4 and IPv6 are sorted separately.
	t.partition(entries)
	for _, half := range [][]block{t.blocks[:t.v4], t.blocks[t.v4:]} {
		slices.SortStableFunc(half, func(a, b block) int {
			return cmp.Or(a.compare(b), cmp.Compare(b2i(a.holder == 0), b2i(b.holder == 0)))
		})
	}
	same := func(a, b block) bool { return a.compare(b) == 0 }
	v4 := slices.CompactFunc(t.blocks[:t.v4:t.v4], same)
	v6 := slices.CompactFunc(t.blocks[t.v4:], same)
	t.blocks, t.v4 = append(v4, v6...), len(v4)
	return nil
}

// partition moves the IPv4 blocks to the front and keeps their order.
func (t *Table) partition(entries []Entry) {
	if t.v4 == 0 || t.v4 == len(entries) {
		return
	}
	out := make([]block, 0, len(entries))
	for _, want4 := range []bool{true, false} {
		for i, e := range entries {
			if e.Prefix.Addr().Is4() == want4 {
				out = append(out, t.blocks[i])
			}
		}
	}
	t.blocks = out
}

// link sets the blocks' positions in the tree, the index and the lists of holders.
func (t *Table) link() {
	t.index = new(bart.Table[uint32])
	var open []uint32
	for i := range t.blocks {
		b := &t.blocks[i]
		for len(open) > 0 && !t.contains(open[len(open)-1], uint32(i)) {
			t.blocks[open[len(open)-1]].end = uint32(i)
			open = open[:len(open)-1]
		}
		b.parent = noBlock
		if len(open) > 0 {
			b.parent = open[len(open)-1]
		}
		open = append(open, uint32(i))
		t.index.Insert(t.prefix(uint32(i)), uint32(i))
	}
	for _, i := range open {
		t.blocks[i].end = uint32(len(t.blocks))
	}

	t.heldFrom = make([]uint32, len(t.holders)+1)
	for _, b := range t.blocks {
		t.heldFrom[b.holder+1]++
	}
	if len(t.holders) > 0 {
		t.heldFrom[1] = 0 // blocks without a holder are not listed
	}
	for h := range t.holders {
		t.heldFrom[h+1] += t.heldFrom[h]
	}
	t.held = make([]uint32, t.heldFrom[len(t.holders)])
	next := slices.Clone(t.heldFrom)
	for i, b := range t.blocks {
		if b.holder != 0 {
			t.held[next[b.holder]] = uint32(i)
			next[b.holder]++
		}
	}
}

// Len returns the number of entries.
func (t *Table) Len() int { return len(t.blocks) }

// Lookup returns the smallest entry that contains the address.
func (t *Table) Lookup(addr netip.Addr) (Entry, bool) {
	if t.index == nil || !addr.IsValid() {
		return Entry{}, false
	}
	i, ok := t.index.Lookup(addr.Unmap().WithZone(""))
	if !ok {
		return Entry{}, false
	}
	return t.entry(i), true
}

// Get returns the entry with exactly this prefix.
func (t *Table) Get(p netip.Prefix) (Entry, bool) {
	if t.index == nil || !p.IsValid() {
		return Entry{}, false
	}
	i, ok := t.index.Get(p.Masked())
	if !ok {
		return Entry{}, false
	}
	return t.entry(i), true
}

// Supernets yields the entries that contain p, the smallest first, the root last. If p
// itself is an entry it is the first.
func (t *Table) Supernets(p netip.Prefix) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if t.index == nil || !p.IsValid() {
			return
		}
		i, ok := t.index.LookupPrefix(p.Masked())
		if !ok {
			return
		}
		for ; i != noBlock; i = t.blocks[i].parent {
			if !yield(t.entry(i)) {
				return
			}
		}
	}
}

// Children yields the entries directly below p in the order of their addresses: those
// inside p, without p itself, that are inside no other such entry. p need not be an
// entry: the children of 0.0.0.0/0 are IPv4's roots.
func (t *Table) Children(p netip.Prefix) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if !p.IsValid() {
			return
		}
		for i, to := t.span(p.Masked()); i < to; i = t.blocks[i].end {
			if !yield(t.entry(i)) {
				return
			}
		}
	}
}

// Within yields all entries inside p, without p itself, in the order of their addresses,
// an entry before those inside it.
func (t *Table) Within(p netip.Prefix) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if !p.IsValid() {
			return
		}
		for i, to := t.span(p.Masked()); i < to; i++ {
			if !yield(t.entry(i)) {
				return
			}
		}
	}
}

// Held returns the prefixes of a holder in the order of their addresses. The empty
// holder has none.
func (t *Table) Held(holder string) []netip.Prefix {
	if len(t.holders) == 0 {
		return nil
	}
	h, ok := slices.BinarySearch(t.holders, holder)
	if !ok {
		return nil
	}
	places := t.held[t.heldFrom[h]:t.heldFrom[h+1]]
	out := make([]netip.Prefix, len(places))
	for i, b := range places {
		out[i] = t.prefix(b)
	}
	return out
}

// span returns the range of indices of the blocks inside p, without p itself.
func (t *Table) span(p netip.Prefix) (from, to uint32) {
	lo, hi := 0, t.v4
	if !p.Addr().Is4() {
		lo, hi = t.v4, len(t.blocks)
	}
	half, want := t.blocks[lo:hi], blockOf(p)
	at, found := slices.BinarySearchFunc(half, want, block.compare)
	if found {
		return uint32(lo+at) + 1, half[at].end
	}
	n, _ := slices.BinarySearchFunc(half[at:], want, func(b, w block) int {
		if w.covers(b) {
			return -1
		}
		return 1
	})
	return uint32(lo + at), uint32(lo + at + n)
}

// contains reports whether block a contains block b.
func (t *Table) contains(a, b uint32) bool {
	return (int(a) < t.v4) == (int(b) < t.v4) && t.blocks[a].covers(t.blocks[b])
}

// prefix returns the prefix of block i.
func (t *Table) prefix(i uint32) netip.Prefix {
	b := t.blocks[i]
	if int(i) < t.v4 {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(b.hi>>32))
		return netip.PrefixFrom(netip.AddrFrom4(a), int(b.bits))
	}
	var a [16]byte
	binary.BigEndian.PutUint64(a[:8], b.hi)
	binary.BigEndian.PutUint64(a[8:], b.lo)
	return netip.PrefixFrom(netip.AddrFrom16(a), int(b.bits))
}

// entry returns block i as an Entry.
func (t *Table) entry(i uint32) Entry {
	b := t.blocks[i]
	e := Entry{Prefix: t.prefix(i), Holder: t.holders[b.holder], Registry: t.registries[b.registry]}
	e.Country = countryOf(b.country)
	return e
}

// blockOf returns a masked prefix as a block; IPv4 addresses occupy the upper bits.
func blockOf(p netip.Prefix) block {
	b := block{bits: uint8(p.Bits())}
	if p.Addr().Is4() {
		a := p.Addr().As4()
		b.hi = uint64(binary.BigEndian.Uint32(a[:])) << 32
		return b
	}
	a := p.Addr().As16()
	b.hi, b.lo = binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
	return b
}

// compare orders blocks of one family by address, then the larger block first.
func (b block) compare(o block) int {
	return cmp.Or(cmp.Compare(b.hi, o.hi), cmp.Compare(b.lo, o.lo), cmp.Compare(b.bits, o.bits))
}

// covers reports whether b contains o. Both must be of the same family.
func (b block) covers(o block) bool {
	if b.bits > o.bits {
		return false
	}
	if b.bits <= 64 {
		return (b.hi^o.hi)>>(64-b.bits) == 0
	}
	return b.hi == o.hi && (b.lo^o.lo)>>(128-b.bits) == 0
}

// validate reports whether e can be in a table.
func (e Entry) validate() error {
	switch {
	case !e.Prefix.IsValid() || e.Prefix != e.Prefix.Masked() || e.Prefix.Addr().Is4In6():
		return fmt.Errorf("%w: %v is no prefix with zero host bits", ErrEntry, e.Prefix)
	case len(e.Holder) > maxHolder:
		return fmt.Errorf("%w: the holder of %s has a name of %d bytes, at most %d are taken",
			ErrEntry, e.Prefix, len(e.Holder), maxHolder)
	case len(e.Registry) > maxRegistry:
		return fmt.Errorf("%w: the registry of %s has a name of %d bytes, at most %d are taken",
			ErrEntry, e.Prefix, len(e.Registry), maxRegistry)
	case e.Country != "" && !isCountry(e.Country):
		return fmt.Errorf("%w: %s has country %q, want two capital letters", ErrEntry, e.Prefix,
			e.Country)
	}
	return nil
}

// isCountry reports whether s is two capital letters.
func isCountry(s string) bool {
	return len(s) == 2 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'A' && s[1] <= 'Z'
}

// b2i returns 1 for true.
func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// countries contains every pair of capital letters once, so that entries share them.
var countries = func() (out [26 * 26]string) {
	for i := range out {
		out[i] = string([]byte{'A' + byte(i/26), 'A' + byte(i%26)})
	}
	return out
}()

// countryOf returns a country as text; validate rejects invalid ones.
func countryOf(c [2]byte) string {
	switch {
	case c == [2]byte{}:
		return ""
	case c[0] >= 'A' && c[0] <= 'Z' && c[1] >= 'A' && c[1] <= 'Z':
		return countries[int(c[0]-'A')*26+int(c[1]-'A')]
	}
	return string(c[:])
}
