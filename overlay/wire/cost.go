package wire

import (
	"cmp"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// What decoding may allocate. A list of tiny maps has one byte for each map, but decoding makes
// a whole struct of each; no honest message expands nearly as much.
const (
	// expansion is how many bytes of memory a byte of CBOR may become. The leanest honest
	// lists, of entries with short URLs, reach 6.
	expansion = 16
	// expansionBase is what any message may become, however short. Bytes.
	expansionBase = 64 << 10
	// keyCost is what an unknown key of a map costs the decoder, which remembers it to find
	// repetitions. Bytes.
	keyCost = 128
	// maxKey is the longest name that is compared with those of fields. Bytes.
	maxKey = 64
	// anyCost is what an item costs of which the type is not known. Bytes.
	anyCost = 64
)

// decodedSize returns how many bytes decoding body into a value like v allocates, about. It
// allocates nothing itself. It returns ErrTooLarge if that is more than an honest message of
// this length needs, and other errors for what is not CBOR.
func decodedSize(body []byte, v any) (int, error) {
	m := meter{rest: body, left: expansionBase + expansion*len(body)}
	most := m.left
	if err := m.value(planOf(reflect.TypeOf(v)), 0); err != nil {
		return 0, fmt.Errorf("wire: decode %T: %w", v, err)
	}
	return most - m.left, nil
}

// shape is what a type is to the decoder.
type shape uint8

const (
	shapeLeaf   shape = iota // no memory outside the value, or as much as the encoded bytes
	shapeBytes               // a slice or Go array of bytes
	shapeAny                 // an interface
	shapeList                // a slice
	shapeArray               // a Go array
	shapeMap                 // a Go map
	shapeStruct              // a map with known keys
	shapeTuple               // a struct that is encoded as an array
)

// plan is the layout of a type. It is immutable once planOf has returned it.
type plan struct {
	shape   shape
	pointer int   // bytes to allocate for what a pointer points to
	size    int   // bytes of a value; of a map, of a pair
	elem    *plan // of a list, an array or a map; else nil
	key     *plan // of a map
	// The fields of a struct, by number and by name in lower case.
	numbers map[uint64]*plan
	names   map[string]*plan
	tuple   []*plan // in order
}

var anyPlan = &plan{shape: shapeAny, size: anyCost}

var plans sync.Map // reflect.Type to *plan

// planOf returns the plan of t.
func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := makePlan(t, map[reflect.Type]*plan{})
	plans.Store(t, p)
	return p
}

var (
	timeType   = reflect.TypeFor[time.Time]()
	binaryType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// makePlan returns the plan of t. made has those in progress, as types may be recursive.
func makePlan(t reflect.Type, made map[reflect.Type]*plan) *plan {
	if p := made[t]; p != nil {
		return p
	}
	p := &plan{size: int(t.Size())}
	made[t] = p
	switch {
	case t == timeType || reflect.PointerTo(t).Implements(binaryType):
		return p
	case t.Kind() == reflect.Pointer:
		*p = *makePlan(t.Elem(), made)
		p.pointer, p.size = p.pointer+int(t.Elem().Size()), int(t.Size())
	case t.Kind() == reflect.Interface:
		p.shape, p.size = shapeAny, anyCost
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) &&
		t.Elem().Kind() == reflect.Uint8:
		p.shape = shapeBytes
	case t.Kind() == reflect.Slice:
		p.shape, p.elem = shapeList, makePlan(t.Elem(), made)
	case t.Kind() == reflect.Array:
		p.shape, p.elem = shapeArray, makePlan(t.Elem(), made)
	case t.Kind() == reflect.Map:
		p.shape, p.key, p.elem = shapeMap, makePlan(t.Key(), made), makePlan(t.Elem(), made)
		p.size = 2*(p.key.size+p.elem.size) + 16 // half of the places of a map are free
	case t.Kind() == reflect.Struct:
		p.shape, p.numbers, p.names = shapeStruct, map[uint64]*plan{}, map[string]*plan{}
		p.addFields(t, made)
		if f, ok := t.FieldByName("_"); ok && strings.Contains(f.Tag.Get("cbor"), "toarray") {
			p.shape = shapeTuple
		}
	}
	return p
}

// addFields adds the fields of a struct, with those of embedded structs.
func (p *plan) addFields(t reflect.Type, made map[reflect.Type]*plan) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("cbor")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct:
			p.addFields(f.Type, made)
			continue
		case !f.IsExported() || name == "-":
			continue
		}
		field := makePlan(f.Type, made)
		p.tuple = append(p.tuple, field)
		if number, err := strconv.ParseUint(name, 10, 64); err == nil &&
			strings.Contains(options, "keyasint") {
			p.numbers[number] = field
		} else {
			p.names[strings.ToLower(cmp.Or(name, f.Name))] = field
		}
	}
}

var errMalformed = errors.New("not well-formed CBOR, too deep, or of another type")

// meter walks over a CBOR item and counts what decoding it allocates.
type meter struct {
	rest []byte // not read yet
	left int    // bytes that may still be allocated
}

// The major types of CBOR (RFC 8949 section 3.1).
const (
	majorBytes = 2
	majorText  = 3
	majorArray = 4
	majorMap   = 5
	majorTag   = 6
)

// value walks over one item, which is decoded by p; nil means that it is skipped.
func (m *meter) value(p *plan, depth int) error {
	isNil := len(m.rest) > 0 && (m.rest[0] == 0xf6 || m.rest[0] == 0xf7)
	major, n, err := m.head()
	if err != nil {
		return err
	}
	if p != nil && p.pointer > 0 && !isNil {
		if err := m.spend(p.pointer); err != nil {
			return err
		}
	}
	if p != nil && !isNil && !p.takes(major) {
		return errMalformed
	}
	switch major {
	case majorBytes, majorText:
		if n > uint64(len(m.rest)) {
			return errMalformed
		}
		m.rest = m.rest[n:]
		if p != nil {
			return m.spend(int(n))
		}
	case majorArray:
		return m.list(p, n, depth+1)
	case majorMap:
		return m.pairs(p, n, depth+1)
	case majorTag:
		return errMalformed
	}
	return nil
}

// takes reports whether an item of a major type is ever decoded by p. Others are refused at once:
// the decoder makes an error for each.
func (p *plan) takes(major byte) bool {
	switch p.shape {
	case shapeAny:
		return true
	case shapeStruct, shapeMap:
		return major == majorMap
	case shapeList, shapeArray, shapeTuple:
		return major == majorArray
	case shapeBytes:
		return major == majorBytes
	}
	return major != majorArray && major != majorMap
}

// list walks over the n items of an array.
func (m *meter) list(p *plan, n uint64, depth int) error {
	if n > maxElements || n > uint64(len(m.rest)) || depth > maxNesting {
		return errMalformed
	}
	var elem *plan
	if p != nil {
		if elem = p.elem; p.shape == shapeAny {
			elem = anyPlan
		}
		if p.shape == shapeAny || p.shape == shapeList { // an array is part of its value
			if err := m.spend(int(n) * elem.size); err != nil {
				return err
			}
		}
	}
	for i := range n {
		if p != nil && i < uint64(len(p.tuple)) && p.shape == shapeTuple {
			elem = p.tuple[i]
		}
		if err := m.value(elem, depth); err != nil {
			return err
		}
	}
	return nil
}

// pairs walks over the n pairs of a map.
func (m *meter) pairs(p *plan, n uint64, depth int) error {
	if n > maxPairs || 2*n > uint64(len(m.rest)) || depth > maxNesting {
		return errMalformed
	}
	if p != nil && p.shape == shapeMap {
		if err := m.spend(int(n) * p.size); err != nil {
			return err
		}
	}
	for range n {
		key, elem, err := m.key(p)
		if err != nil {
			return err
		}
		if key != nil { // not read yet
			if err := m.value(key, depth); err != nil {
				return err
			}
		}
		if err := m.value(elem, depth); err != nil {
			return err
		}
	}
	return nil
}

// key decides how the next pair of a map is decoded. Keys of structs are read here; for those
// of other maps it returns their plan.
func (m *meter) key(p *plan) (key, elem *plan, err error) {
	switch {
	case p == nil:
		return anyPlan, nil, nil
	case p.shape == shapeMap:
		return p.key, p.elem, nil
	case p.shape == shapeAny:
		return anyPlan, anyPlan, m.spend(2 * anyCost)
	case p.shape != shapeStruct:
		return anyPlan, nil, nil
	}
	before := m.rest
	major, n, err := m.head()
	if err != nil {
		return nil, nil, err
	}
	var field *plan
	switch {
	case major == 0:
		field = p.numbers[n]
	case major == majorText && n <= min(maxKey, uint64(len(m.rest))):
		field = p.names[strings.ToLower(string(m.rest[:n]))]
		m.rest = m.rest[n:]
	default:
		m.rest = before
		return anyPlan, nil, m.spend(keyCost)
	}
	if field == nil {
		err = m.spend(keyCost)
	}
	return nil, field, err
}

// spend counts n bytes.
func (m *meter) spend(n int) error {
	if m.left -= n; m.left < 0 || n < 0 {
		return fmt.Errorf("%w: it would take much more memory than it has bytes", ErrTooLarge)
	}
	return nil
}

// head reads the head of an item: its major type, and its argument.
func (m *meter) head() (major byte, n uint64, err error) {
	if len(m.rest) == 0 {
		return 0, 0, errMalformed
	}
	first := m.rest[0]
	m.rest = m.rest[1:]
	info := first & 0x1f
	if info < 24 {
		return first >> 5, uint64(info), nil
	}
	size := 1 << (info - 24)
	if info > 27 || len(m.rest) < size { // 31 is an indefinite length
		return 0, 0, errMalformed
	}
	var b [8]byte
	copy(b[8-size:], m.rest)
	m.rest = m.rest[size:]
	return first >> 5, binary.BigEndian.Uint64(b[:]), nil
}
