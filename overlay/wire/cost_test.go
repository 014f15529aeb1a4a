package wire

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// wide is a struct of which an empty map is a costly encoding.
type wide struct {
	Name   string    `cbor:"1,keyasint,omitempty"`
	At     time.Time `cbor:"2,keyasint,omitempty"`
	Until  time.Time `cbor:"3,keyasint,omitempty"`
	Vector []float64 `cbor:"4,keyasint,omitempty"`
	More   [16]int64 `cbor:"5,keyasint,omitempty"`
}

type code uint8

// couple is encoded as an array.
type couple struct {
	_    struct{} `cbor:",toarray"`
	A    uint64
	Text string
}

type group struct {
	Items   []wide                 `cbor:"1,keyasint,omitempty"`
	Links   []*wide                `cbor:"2,keyasint,omitempty"`
	ByName  map[string]wide        `cbor:"3,keyasint,omitempty"`
	Any     any                    `cbor:"4,keyasint,omitempty"`
	Groups  []group                `cbor:"5,keyasint,omitempty"`
	Subnets []netip.Prefix         `cbor:"6,keyasint,omitempty"`
	Others  map[netip.Addr][]int64 `cbor:"7,keyasint,omitempty"`
	Codes   []code                 `cbor:"8,keyasint,omitempty"`
	Digest  [4]byte                `cbor:"9,keyasint"`
	Pairs   []couple               `cbor:"11,keyasint,omitempty"`
	Flags   []bool                 `cbor:"10,keyasint,omitempty"`
}

// array returns the CBOR array of n times item.
func array(n int, item ...byte) []byte {
	return append([]byte{0x9a, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)},
		bytes.Repeat(item, n)...)
}

// bombs are bodies of which the decoded form has many times their size.
func bombs() map[string][]byte {
	const n = maxElements
	all := map[string][]byte{
		"empty maps":     slices.Concat([]byte{0xa1, 1}, array(n, 0xa0)),
		"pointers":       slices.Concat([]byte{0xa1, 2}, array(n, 0xa0)),
		"nested lists":   slices.Concat([]byte{0xa1, 5}, array(n, 0xa0)),
		"anything":       slices.Concat([]byte{0xa1, 4}, array(n, 0x80)),
		"lists of lists": slices.Concat([]byte{0xa1, 4}, array(200, array(600, 0x80)...)),
		"groups of empty map": slices.Concat([]byte{0xa1, 5}, array(64,
			slices.Concat([]byte{0xa1, 1}, array(2000, 0xa0))...)),
	}
	var unknown bytes.Buffer
	unknown.Write([]byte{0xb9, 0x1f, 0xff})
	for i := range 0x1fff {
		unknown.Write([]byte{0x19, 0x40 | byte(i>>8), byte(i), 0})
	}
	all["unknown keys"] = slices.Concat([]byte{0xa1, 1}, array(16, unknown.Bytes()...))
	return all
}

// What a body may become is decided before anything of it is decoded.
func TestBombs(t *testing.T) {
	for name, body := range bombs() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Unmarshal(body, new(group))
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: Unmarshal() = %v, want ErrTooLarge", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(body))/2+256<<10 {
			t.Errorf("%s: %d bytes of memory for %d of CBOR, want hardly any",
				name, took, len(body))
		}
	}
}

func drawGroup(t *rapid.T, depth int) group {
	url := rapid.StringMatching(`https?://[a-z]{2,8}\.example/[a-z0-9]{0,30}`)
	item := rapid.Custom(func(t *rapid.T) wide {
		w := wide{Name: url.Draw(t, "url")}
		if rapid.Bool().Draw(t, "dated") {
			w.At = time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "at"), 0).UTC()
		}
		return w
	})
	g := group{Items: rapid.SliceOfN(item, 0, 200).Draw(t, "items"),
		Codes: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) code {
			return code(rapid.Byte().Draw(t, "code"))
		}), 0, 9).Draw(t, "codes"),
		Flags: rapid.SliceOfN(rapid.Bool(), 0, 9).Draw(t, "flags"),
		Pairs: []couple{{A: 1, Text: url.Draw(t, "text")}},
		Any:   map[string]any{"a": []any{1, nil, "b"}}}
	for _, w := range rapid.SliceOfN(item, 0, 20).Draw(t, "links") {
		g.Links = append(g.Links, &w)
	}
	if depth > 0 && rapid.Bool().Draw(t, "nested") {
		g.Groups = append(g.Groups, drawGroup(t, depth-1))
	}
	return g
}

// Honest messages are decoded, and what decoding them allocates is not much more than was
// calculated.
func TestDecodedSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, 3)
		body, err := Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		size, err := decodedSize(body, new(group))
		if err != nil {
			t.Fatalf("decodedSize() of %d bytes = %v, want nil", len(body), err)
		}
		if most := expansion*len(body) + expansionBase; size > most {
			t.Fatalf("decodedSize() = %d for %d bytes, want %d at most", size, len(body), most)
		}
		if least := len(g.Items) * 180; size < least {
			t.Fatalf("decodedSize() = %d for %d items, want %d at least", size, len(g.Items), least)
		}
	})
}

// What the meter lets pass allocates about as much as it says, whatever the bytes are.
func FuzzDecodedSize(f *testing.F) {
	for _, b := range bombs() {
		f.Add(b[:min(len(b), 300)])
	}
	g, err := Marshal(group{Items: []wide{{Name: "x"}}, Any: []any{1, "a", nil}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(g)
	f.Add([]byte{0xa1, 7, 0xa1, 0x44, 1, 2, 3, 4, 0x81, 1})
	f.Fuzz(func(t *testing.T, body []byte) {
		var g group
		if decMode.Unmarshal(body, &g) == nil { // does not panic
			again, err := Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := decodedSize(again, &g); err != nil && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("decodedSize() = %v for %x, which was encoded here", err, again)
			}
		}
		size, err := decodedSize(body, new(group))
		if err != nil {
			return
		}
		if size < 0 || size > expansion*len(body)+expansionBase {
			t.Fatalf("decodedSize() = %d for %d bytes", size, len(body))
		}
	})
}
