package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

func some() Record {
	return Record{
		URL: "http://a.example/", Status: 200, Type: "text/html", Modified: 5, Size: 3,
		Digest: bytes.Repeat([]byte{1}, 32), Title: "t", Text: "x",
		Links: []string{"http://b.example/"}, Body: []byte("abc"),
	}
}

// What is written is read, in the same order.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 50, 200)
		var in []Record
		var b bytes.Buffer
		for range rapid.IntRange(0, 5).Draw(t, "records") {
			r := Record{
				URL:      "http://a.example/" + text.Draw(t, "url"),
				Status:   rapid.IntRange(100, 599).Draw(t, "status"),
				Modified: rapid.Int64().Draw(t, "m"), Size: rapid.Int64Min(0).Draw(t, "size"),
				Title: text.Draw(t, "title"), Text: text.Draw(t, "text"),
				Cut:   rapid.Bool().Draw(t, "part"),
				Links: rapid.SliceOfN(text, 1, 5).Draw(t, "links"),
				Body:  rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "body"),
			}
			if err := Write(&b, &r); err != nil {
				t.Fatal(err)
			}
			in = append(in, r)
		}
		whole := b.Bytes()
		r := NewReader(bytes.NewReader(whole))
		for i := range in {
			got, err := r.Read()
			if err != nil || !reflect.DeepEqual(got, in[i]) {
				t.Fatalf("record %d: %+v, %v, want %+v", i, got, err, in[i])
			}
		}
		if _, err := r.Read(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("after the last record: %v", err)
		}
		// Every beginning of the bytes gives a beginning of the records.
		r = NewReader(bytes.NewReader(whole[:rapid.IntRange(0, len(whole)).Draw(t, "cut")]))
		for i := 0; ; i++ {
			got, err := r.Read()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("cut off: %v", err)
				}
				break
			}
			if !reflect.DeepEqual(got, in[i]) {
				t.Fatalf("cut off: record %d differs", i)
			}
		}
	})
}

// Records that are not valid are neither written nor read.
func TestInvalid(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"no URL":       func(r *Record) { r.URL = "" },
		"long URL":     func(r *Record) { r.URL = strings.Repeat("a", MaxURL+1) },
		"status":       func(r *Record) { r.Status = 99 },
		"large status": func(r *Record) { r.Status = 600 },
		"location":     func(r *Record) { r.Location = strings.Repeat("a", MaxURL+1) },
		"size":         func(r *Record) { r.Size = -1 },
		"digest":       func(r *Record) { r.Digest = []byte{1} },
		"title":        func(r *Record) { r.Title = strings.Repeat("a", MaxText+1) },
		"type":         func(r *Record) { r.Type = strings.Repeat("a", 257) },
		"link":         func(r *Record) { r.Links = []string{strings.Repeat("a", MaxURL+1)} },
		"links":        func(r *Record) { r.Links = make([]string, MaxLinks+1) },
		"body":         func(r *Record) { r.Body = make([]byte, MaxBody+1) },
	} {
		r := some()
		change(&r)
		if err := Write(io.Discard, &r); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Write() = %v, want %v", name, err, ErrInvalid)
		}
		b := encode(t, r)
		if _, err := NewReader(bytes.NewReader(b)).Read(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Read() = %v, want %v", name, err, ErrInvalid)
		}
	}
}

// encode returns a record without a check.
func encode(t *testing.T, r Record) []byte {
	t.Helper()
	body, err := cbor.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.AppendUvarint(nil, uint64(len(body))), body...)
}

// A length that promises too much is refused, and one that promises much takes little memory.
func TestLength(t *testing.T) {
	b := binary.AppendUvarint(nil, maxSize+1)
	if _, err := NewReader(bytes.NewReader(b)).Read(); !errors.Is(err, ErrInvalid) {
		t.Errorf("too large: %v, want %v", err, ErrInvalid)
	}
	b = binary.AppendUvarint(nil, maxSize)
	r := NewReader(bytes.NewReader(append(b, 1)))
	if _, err := r.Read(); !errors.Is(err, io.ErrUnexpectedEOF) || cap(r.buf) > 4<<20 {
		t.Errorf("cut off: %v, %d bytes reserved", err, cap(r.buf))
	}
	if _, err := NewReader(bytes.NewReader(bytes.Repeat([]byte{0xff}, 11))).Read(); !errors.Is(err,
		ErrInvalid) {
		t.Errorf("overflow: %v, want %v", err, ErrInvalid)
	}
}

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	r := some()
	if err := Write(&b, &r); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := NewReader(bytes.NewReader(b))
		for {
			r, err := in.Read()
			if err != nil {
				return
			}
			var again bytes.Buffer
			if err := Write(&again, &r); err != nil {
				t.Fatalf("a record that was read is invalid: %v", err)
			}
			if got, err := NewReader(&again).Read(); err != nil || !reflect.DeepEqual(got, r) {
				t.Fatalf("%+v became %+v, %v", r, got, err)
			}
		}
	})
}
