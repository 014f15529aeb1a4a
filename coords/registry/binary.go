package registry

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ErrBinary is returned for bytes that were not written by Encode.
var ErrBinary = errors.New("registry: bad stored entries")

// magic is the beginning of encoded entries; its last byte is the version.
const magic = "peerdRIR\x01"

// Encode writes entries as bytes, about twenty per entry including the holders' names.
// Equal entries in any order give equal bytes. The error wraps ErrEntry.
//
//	magic; names of registries; names of holders; number of entries; entries
//	name:  length, bytes
//	entry: family and length in one byte, difference of the address to that
//	       of the previous one (IPv4: 32 bits; IPv6: upper, lower 64 bits),
//	       registry, holder, country (2 bytes)
//
// All numbers are unsigned varints.
func Encode(entries []Entry) ([]byte, error) {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Registry, b.Registry),
			cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Country, b.Country))
	})
	var holders, registries names
	for _, e := range sorted {
		if err := e.validate(); err != nil {
			return nil, err
		}
		registries.add(e.Registry)
		holders.add(e.Holder)
	}
	if len(registries.list) > maxRegistries || len(sorted) > MaxEntries {
		return nil, fmt.Errorf("%w: %d entries of %d registries are too many", ErrEntry,
			len(sorted), len(registries.list))
	}
	out := append(make([]byte, 0, 16*len(sorted)), magic...)
	out = holders.append(registries.append(out))
	out = binary.AppendUvarint(out, uint64(len(sorted)))
	var last block
	for _, e := range sorted {
		b := blockOf(e.Prefix)
		if e.Prefix.Addr().Is4() {
			out = append(out, b.bits)
			out = binary.AppendUvarint(out, (b.hi-last.hi)>>32)
		} else {
			out = append(out, b.bits+33)
			out = binary.AppendUvarint(out, b.hi-last.hi)
			out = binary.AppendUvarint(out, b.lo-last.lo)
		}
		last = b
		out = binary.AppendUvarint(out, uint64(registries.at[e.Registry]))
		out = binary.AppendUvarint(out, uint64(holders.at[e.Holder]))
		var country [2]byte
		copy(country[:], e.Country)
		out = append(out, country[:]...)
	}
	return out, nil
}

// names numbers names in the order of their first occurrence.
type names struct {
	at   map[string]int
	list []string
}

func (n *names) add(s string) {
	if _, ok := n.at[s]; ok {
		return
	}
	if n.at == nil {
		n.at = map[string]int{}
	}
	n.at[s] = len(n.list)
	n.list = append(n.list, s)
}

func (n *names) append(out []byte) []byte {
	out = binary.AppendUvarint(out, uint64(len(n.list)))
	for _, s := range n.list {
		out = append(binary.AppendUvarint(out, uint64(len(s))), s...)
	}
	return out
}

// Decode is the inverse of Encode and returns the entries sorted. It checks its input
// completely, and allocates memory in proportion to its length. The error wraps
// ErrBinary.
func Decode(data []byte) ([]Entry, error) {
	if !bytes.HasPrefix(data, []byte(magic)) {
		return nil, fmt.Errorf("%w: they begin otherwise", ErrBinary)
	}
	d := decoder{data: data, at: len(magic)}
	registries := d.names(maxRegistries, maxRegistry)
	holders := d.names(MaxEntries, maxHolder)
	const least = 6 // least bytes per entry
	n := d.number(uint64(min(MaxEntries, len(data)/least)))
	if d.bad {
		return nil, fmt.Errorf("%w: broken at byte %d", ErrBinary, d.at)
	}
	out := make([]Entry, 0, n)
	var hi, lo uint64
	v6 := false
	for range n {
		bits, at := int(d.byte()), d.at
		var addr netip.Addr
		if bits <= 32 {
			hi += d.number(1<<32-1) << 32
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], uint32(hi>>32))
			addr = netip.AddrFrom4(a)
			d.fail(v6)
		} else {
			bits, v6 = bits-33, true
			hi += d.number(1<<64 - 1)
			lo += d.number(1<<64 - 1)
			var a [16]byte
			binary.BigEndian.PutUint64(a[:8], hi)
			binary.BigEndian.PutUint64(a[8:], lo)
			addr = netip.AddrFrom16(a)
		}
		registry, holder := d.number(uint64(len(registries))), d.number(uint64(len(holders)))
		country := [2]byte{d.byte(), d.byte()}
		d.fail(registry >= uint64(len(registries)) || holder >= uint64(len(holders)))
		if d.bad {
			return nil, fmt.Errorf("%w: broken at byte %d", ErrBinary, at)
		}
		e := Entry{Prefix: netip.PrefixFrom(addr, bits), Registry: registries[registry],
			Holder: holders[holder], Country: countryOf(country)}
		if err := e.validate(); err != nil {
			return nil, fmt.Errorf("%w: at byte %d: %w", ErrBinary, at, err)
		}
		out = append(out, e)
	}
	if d.at != len(data) {
		return nil, fmt.Errorf("%w: %d bytes behind the end", ErrBinary, len(data)-d.at)
	}
	return out, nil
}

// decoder reads from data[at] until it finds an error.
type decoder struct {
	data []byte
	at   int
	bad  bool
}

func (d *decoder) fail(bad bool) { d.bad = d.bad || bad }

func (d *decoder) byte() byte {
	if d.bad || d.at >= len(d.data) {
		d.bad = true
		return 0
	}
	d.at++
	return d.data[d.at-1]
}

func (d *decoder) number(most uint64) uint64 {
	if d.bad {
		return 0
	}
	v, n := binary.Uvarint(d.data[d.at:])
	if n <= 0 || v > most {
		d.bad = true
		return 0
	}
	d.at += n
	return v
}

func (d *decoder) names(most, length int) []string {
	n := d.number(uint64(min(most, len(d.data))))
	var out []string
	for range n {
		l := int(d.number(uint64(length)))
		if d.bad || l > len(d.data)-d.at {
			d.bad = true
			return nil
		}
		out = append(out, string(d.data[d.at:d.at+l]))
		d.at += l
	}
	return out
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
