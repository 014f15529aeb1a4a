package registry

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

func TestEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := rapid.SliceOfN(entryGen(), 0, 40).Draw(t, "entries")
		data, err := Encode(entries)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		order := map[Entry]int{}
		for _, e := range entries {
			order[e]++
		}
		for _, e := range back {
			order[e]--
		}
		for e, n := range order {
			if n != 0 {
				t.Fatalf("%v: %d too few", e, n)
			}
		}
		shuffled := rapid.Permutation(entries).Draw(t, "shuffled")
		if again, _ := Encode(shuffled); !bytes.Equal(again, data) {
			t.Fatal("the order of the entries shows")
		}
	})
}

func TestDecodeRefuses(t *testing.T) {
	data, err := Encode(slices.Collect(all(nested(t))))
	if err != nil {
		t.Fatal(err)
	}
	for n := range data {
		if _, err := Decode(data[:n]); !errors.Is(err, ErrBinary) {
			t.Fatalf("the first %d bytes of %d: %v", n, len(data), err)
		}
	}
	if _, err := Decode(append(data, 0)); !errors.Is(err, ErrBinary) {
		t.Errorf("a byte more: %v", err)
	}
	if _, err := Encode([]Entry{{}}); !errors.Is(err, ErrEntry) {
		t.Errorf("no prefix: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	data, err := Encode([]Entry{
		{Prefix: pfx("10.1.0.0/16"), Holder: "ripencc:a", Registry: "ripencc", Country: "NL"},
		{Prefix: pfx("2001:db8::/32"), Holder: "arin:v6", Registry: "arin"},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrBinary) {
				t.Fatal(err)
			}
			return
		}
		if _, err := Build(entries); err != nil {
			t.Fatal(err)
		}
	})
}
