package record

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// However many records peers send, and however large they are, the memory is bounded, and what this
// peer wrote or found in the DHT is not forgotten for what only peers sent.
func TestMemoryBounded(t *testing.T) {
	const size = 1 << 10
	m := newMemory[int, note](size)
	won, found := Entry[note]{Won: true}, Entry[note]{Asked: time.Unix(1, 0)}
	for _, large := range []int{0, 16 << 10} {
		heard := Entry[note]{Sealed: make([]byte, large)}
		for k := range size / 4 {
			m.put(k, won)
			m.put(size+k, found)
		}
		for k := range 8 * size {
			m.put(2*size+k, heard)
		}
		checkMemory(t, m, size/4, size/4)
		if _, ok := m.get(2*size + 8*size - 1); !ok {
			t.Error("the newest record is forgotten")
		}
	}
	found.Sealed = make([]byte, 16<<10)
	for k := range 8 * size {
		m.put(2*size+k, found)
	}
	checkMemory(t, m, size/4, 1)
}

func checkMemory(t *testing.T, m *memory[int, note], won, found int) {
	t.Helper()
	n, bytes := 0, 0
	for _, r := range m.ranks {
		n += r.Len()
		held := 0
		for _, e := range r.Values() {
			held += len(e.Sealed)
		}
		if held != r.bytes {
			t.Errorf("counted %d bytes of %d", r.bytes, held)
		}
		bytes += held
	}
	if n > m.size || bytes > m.size*meanSize {
		t.Errorf("%d entries with %d bytes in a memory of %d", n, bytes, m.size)
	}
	if m.ranks[2].Len() < won || m.ranks[1].Len() < found {
		t.Errorf("%d entries won and %d found are left, want %d and %d", m.ranks[2].Len(),
			m.ranks[1].Len(), won, found)
	}
}

// An entry is remembered once, as it was put last, and counted once.
func TestMemoryIsMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m, want := newMemory[int, note](64), map[int]Entry[note]{}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			k := rapid.IntRange(0, 9).Draw(rt, "key")
			if rapid.Bool().Draw(rt, "remove") {
				m.remove(k)
				delete(want, k)
				continue
			}
			e := Entry[note]{Won: rapid.Bool().Draw(rt, "won"),
				Asked:  rapid.SampledFrom([]time.Time{{}, time.Unix(1, 0)}).Draw(rt, "asked"),
				Sealed: make([]byte, rapid.IntRange(0, 99).Draw(rt, "size"))}
			m.put(k, e)
			want[k] = e
		}
		n, bytes := 0, 0
		for _, r := range m.ranks {
			n, bytes = n+r.Len(), bytes+r.bytes
		}
		for k, e := range want {
			got, ok := m.get(k)
			if !ok || got.Won != e.Won || !got.Asked.Equal(e.Asked) ||
				len(got.Sealed) != len(e.Sealed) {
				rt.Fatalf("%d is %+v, want %+v", k, got, e)
			}
			bytes -= len(e.Sealed)
		}
		if n != len(want) || bytes != 0 {
			rt.Fatalf("%d entries, want %d; %d bytes too many", n, len(want), bytes)
		}
	})
}
