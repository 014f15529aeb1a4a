package trap

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"peerd/internal/order"
)

// MaxStateBytes is the maximum size of a State, in memory and encoded.
const MaxStateBytes = 32 << 10

// ErrState is wrapped by errors of UnmarshalCBOR.
var ErrState = errors.New("trap: not a state")

// State is what is remembered about one host. It is stored by the host's owner and sent
// with its subnet to a new owner. The zero State is that of a host without URLs. It is not
// safe for concurrent use.
type State struct {
	urls   uint64
	drops  [numHeuristics]uint64
	linked sketch
	table  table
	texts  texts
	lost   uint32 // one minus the yield of the host's pages that were found on copies
	wary   bool   // a budget is used; see Observe
	dirty  bool
}

// Domains returns the number of other registered domains that link to the host: exact up to
// 8, then an estimate with a standard error of 9 %.
func (s *State) Domains() uint64 { return uint64(math.Round(s.linked.count())) }

// Dirty reports whether s has changed since it was read or MarkSaved was called.
func (s *State) Dirty() bool { return s.dirty }

// MarkSaved records that s has been stored.
func (s *State) MarkSaved() { s.dirty = false }

// wire is the encoded form.
type wire struct {
	Version int      `cbor:"1,keyasint"`
	URLs    uint64   `cbor:"2,keyasint,omitempty"`
	Drops   []uint64 `cbor:"3,keyasint,omitempty"` // by heuristic
	Linked  []byte   `cbor:"4,keyasint,omitempty"`
	// Slots holds the slots, least recently used first: key (8 bytes, big-endian), URLs
	// (uvarint), length of the sketch (1 byte), sketch.
	Slots []byte `cbor:"5,keyasint,omitempty"`
	Lost  uint32 `cbor:"6,keyasint,omitempty"`
	Texts []byte `cbor:"7,keyasint,omitempty"`
}

const wireVersion = 2

// MarshalCBOR implements cbor.Marshaler.
func (s *State) MarshalCBOR() ([]byte, error) {
	w := wire{Version: wireVersion, URLs: s.urls, Linked: s.linked, Lost: s.lost,
		Texts: s.texts.appendTo(nil)}
	last := len(s.drops)
	for last > 0 && s.drops[last-1] == 0 {
		last--
	}
	w.Drops = s.drops[:last]
	used := make([]*slot, 0, len(s.table.slots))
	for i := range s.table.slots {
		if s.table.slots[i].key != 0 {
			used = append(used, &s.table.slots[i])
		}
	}
	order.SortFunc(used, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.used, b.used), cmp.Compare(a.key, b.key))
	})
	for _, at := range used {
		w.Slots = binary.BigEndian.AppendUint64(w.Slots, at.key)
		w.Slots = binary.AppendUvarint(w.Slots, uint64(at.n))
		w.Slots = append(w.Slots, byte(len(at.distinct)))
		w.Slots = append(w.Slots, at.distinct...)
	}
	return cbor.Marshal(w)
}

// UnmarshalCBOR implements cbor.Unmarshaler for untrusted bytes. It fails with ErrState and
// leaves s unchanged unless b is a possible result of MarshalCBOR.
func (s *State) UnmarshalCBOR(b []byte) error {
	if len(b) > MaxStateBytes {
		return fmt.Errorf("%w: %d bytes", ErrState, len(b))
	}
	var w wire
	if err := cbor.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if w.Version != wireVersion || len(w.Drops) > int(numHeuristics) || w.Lost > one ||
		!sketch(w.Linked).valid() {
		return fmt.Errorf("%w: version %d, %d drops, %d bytes of domains",
			ErrState, w.Version, len(w.Drops), len(w.Linked))
	}
	n := State{urls: w.URLs, linked: w.Linked, lost: w.Lost}
	copy(n.drops[:], w.Drops)
	if err := n.table.read(w.Slots); err != nil {
		return err
	}
	if err := n.texts.read(w.Texts); err != nil {
		return err
	}
	*s = n
	return nil
}

// read fills an empty table.
func (t *table) read(b []byte) error {
	for n := 0; len(b) > 0; n++ {
		if n == maxShapes || len(b) < 10 {
			return fmt.Errorf("%w: too many or truncated slots", ErrState)
		}
		key := binary.BigEndian.Uint64(b)
		urls, size := binary.Uvarint(b[8:])
		if key == 0 || size <= 0 || urls > 1<<32-1 || len(b) <= 8+size || t.find(key) != nil {
			return fmt.Errorf("%w: invalid slot %d", ErrState, n)
		}
		length := int(b[8+size])
		b = b[8+size+1:]
		if length > len(b) || !sketch(b[:length]).valid() {
			return fmt.Errorf("%w: invalid sketch %d", ErrState, n)
		}
		at := t.use(key)
		at.n = uint32(urls)
		if length > 0 {
			at.distinct = sketch(slices.Clone(b[:length]))
		}
		b = b[length:]
		if !at.distinct.exact() {
			if t.sketches++; t.sketches > maxSketches {
				return fmt.Errorf("%w: too many sketches", ErrState)
			}
		}
	}
	return nil
}
