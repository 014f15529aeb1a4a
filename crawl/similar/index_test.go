package similar

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"peerd/store"
)

// id makes a digest of a number.
func id(n int) store.Digest { return Digest(fmt.Append(nil, n)) }

// TestIndexFindsAll: what a search of the last entries one by one finds, the
// Index finds at the same distance; and so it does after having been written.
func TestIndexFindsAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 60).Draw(t, "capacity")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		x := NewIndex(capacity)
		var all []Print
		for i := range rapid.IntRange(0, 200).Draw(t, "pages") {
			p := Print(r.Uint64())
			if len(all) > 0 && r.IntN(2) == 0 {
				p = all[r.IntN(len(all))]
				for range r.IntN(6) {
					p ^= 1 << r.IntN(64)
				}
			}
			best, name := Near+1, store.Digest{}
			for j := max(0, len(all)-capacity); j < len(all); j++ {
				if d := all[j].Distance(p); d <= best {
					best, name = d, id(j)
				}
			}
			got, d, ok := x.Lookup(p)
			if ok != (best <= Near) || ok && (d != best || got != name) {
				t.Fatalf("page %d: %v at %d, want %d", i, ok, d, best)
			}
			x.Add(p, id(i))
			all = append(all, p)
			if r.IntN(30) == 0 {
				b := x.Bytes()
				y, err := ReadIndex(b, capacity)
				if err != nil || !bytes.Equal(b, y.Bytes()) || y.Len() != x.Len() {
					t.Fatalf("%v, or written otherwise", err)
				}
				x = y
			}
		}
	})
}

func TestIndexNumbersEnd(t *testing.T) {
	x := NewIndex(10)
	for i := range 25 {
		x.Add(Print(mix(uint64(i)+1)), id(i))
	}
	x.added = 1<<32 - 1 // the numbers end here: 10·k + 5, as 25 is
	x.rehash(16)
	for i := range 10 {
		x.Add(Print(mix(uint64(i)+1)), id(i))
	}
	for i := range 10 {
		if got, d, ok := x.Lookup(Print(mix(uint64(i) + 1))); !ok || d != 0 || got != id(i) {
			t.Errorf("entry %d: %v, %d", i, ok, d)
		}
	}
}

// TestIndexBounded: a host whose Prints all share a block costs no more than a
// bounded search.
func TestIndexBounded(t *testing.T) {
	x := NewIndex(50_000)
	for i := range 60_000 {
		x.Add(Print(mix(uint64(i))&^0xffff), id(i))
	}
	if x.Len() != 50_000 || len(x.entries) != 50_000 {
		t.Errorf("%d entries", x.Len())
	}
	if _, d, ok := x.Lookup(Print(mix(59_999) &^ 0xffff)); !ok || d != 0 {
		t.Error("the newest is not found")
	}
	if _, _, ok := x.Lookup(Print(mix(5) &^ 0xffff)); ok {
		t.Error("what was forgotten is found")
	}
}

func TestForeignIndex(t *testing.T) {
	for _, b := range [][]byte{nil, {}, {2}, {1, 0}, make([]byte, 25)} {
		if _, err := ReadIndex(b, 10); !errors.Is(err, ErrIndex) {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func FuzzIndex(f *testing.F) {
	x := NewIndex(4)
	for i := range 6 {
		x.Add(Print(i), id(i))
	}
	f.Add(x.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := ReadIndex(b, 3)
		if err != nil {
			return
		}
		if x.Len() > 3 || !bytes.HasSuffix(b, x.Bytes()[1:]) {
			t.Fatal("not the newest")
		}
		x.Lookup(7)
	})
}
