package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
)

func TestReadTimesOfOneSlot(t *testing.T) {
	got, err := ReadTimes(strings.NewReader(
		"# users by servers\n864\t425\t-1\n\n569 280.5 20000\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Slots) != 1 || len(got.Slots[0]) != 2 || got.Slots[0][0][2] != -1 ||
		got.Slots[0][1][1] != 280.5 {
		t.Errorf("ReadTimes() = %v", got.Slots)
	}
}

func TestReadTimesOfManySlots(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("0\t3\t10\t11\n0\t5\t20\t-1\n1\t5\t40\t41\n"))
	z.Close()
	got, err := ReadTimes(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Slots) != 2 || len(got.Slots[0]) != 2 {
		t.Fatalf("read %v", got.Slots)
	}
	if got.Slots[0][1][0] != 20 || got.Slots[1][0][0] >= 0 || got.Slots[1][1][1] != 41 {
		t.Errorf("read %v, want user 3 missing in slot 1", got.Slots)
	}
}

func TestReadTimesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                  "no line",
		"1 2\n1 2 3\n":      "line 2 has 3",
		"# c\n1 2\n\n1 x\n": "line 4: column 2",
		"1 NaN\n":           "line 1: column 2",
		"9e9 1\n":           "line 1: column 1",
	} {
		_, err := ReadTimes(strings.NewReader(text))
		if !errors.Is(err, ErrTimes) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadTimes(f *testing.F) {
	f.Add([]byte("864\t425\n569\t-1\n"))
	f.Add([]byte("0 0 1\n0 1 2\n1 0 3\n"))
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ReadTimes(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, ErrTimes) {
				t.Fatalf("error %v", err)
			}
			return
		}
		for _, slot := range got.Slots {
			if len(slot) != len(got.Slots[0]) {
				t.Fatal("slots of different sizes")
			}
			for _, row := range slot {
				if len(row) != len(got.Slots[0][0]) {
					t.Fatal("rows of different sizes")
				}
			}
		}
	})
}
