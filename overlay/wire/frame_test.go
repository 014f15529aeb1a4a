package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

// message has a field of each kind that is sent.
type message struct {
	Name  string            `cbor:"1,keyasint"`
	List  []uint64          `cbor:"2,keyasint,omitempty"`
	Raw   []byte            `cbor:"3,keyasint,omitempty"`
	Took  time.Duration     `cbor:"4,keyasint"`
	Share float64           `cbor:"5,keyasint"`
	Pairs map[string]string `cbor:"6,keyasint,omitempty"`
	Inner *message          `cbor:"7,keyasint,omitempty"`
}

func drawMessage(t *rapid.T) message {
	m := message{
		Name:  rapid.String().Draw(t, "name"),
		Took:  time.Duration(rapid.Int64().Draw(t, "took")),
		Share: rapid.Float64Range(-1e9, 1e9).Draw(t, "share"),
	}
	if l := rapid.SliceOf(rapid.Uint64()).Draw(t, "list"); len(l) > 0 {
		m.List = l
	}
	if b := rapid.SliceOf(rapid.Byte()).Draw(t, "raw"); len(b) > 0 {
		m.Raw = b
	}
	if p := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "pairs"); len(p) > 0 {
		m.Pairs = p
	}
	return m
}

// dialect is one of the two kinds of frame.
type dialect struct {
	name  string
	write func(io.Writer, any) error
	read  func(io.Reader, int, any) error
}

var dialects = []dialect{{"plain", WriteMsg, readMsg}, {"packed", WriteMsgZ, readMsgZ}}

func TestRoundTrip(t *testing.T) {
	for _, d := range dialects {
		t.Run(d.name, rapid.MakeCheck(func(t *rapid.T) {
			sent := rapid.SliceOfN(rapid.Custom(drawMessage), 1, 4).Draw(t, "messages")
			var stream bytes.Buffer
			for _, m := range sent {
				if err := d.write(&stream, m); err != nil {
					t.Fatal(err)
				}
			}
			r := iotest.OneByteReader(&stream)
			for _, want := range sent {
				var got message
				if err := d.read(r, 1<<20, &got); err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("read %+v, want %+v", got, want)
				}
			}
			if err := d.read(r, 1<<20, &message{}); !errors.Is(err, io.EOF) {
				t.Fatalf("after the last frame: %v, want io.EOF", err)
			}
		}))
	}
}

func TestValuesThatTravel(t *testing.T) {
	type record struct {
		Time   time.Time    `cbor:"1,keyasint"`
		Subnet netip.Prefix `cbor:"2,keyasint"`
		Addr   netip.Addr   `cbor:"3,keyasint"`
		Zero   time.Time    `cbor:"4,keyasint"`
	}
	want := record{
		Time:   time.Date(2026, 2, 3, 4, 5, 6, 789_012_345, time.UTC),
		Subnet: netip.MustParsePrefix("2001:db8::/48"),
		Addr:   netip.MustParseAddr("192.0.2.7"),
	}
	b, err := Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if !got.Time.Equal(want.Time) || got.Subnet != want.Subnet || got.Addr != want.Addr ||
		!got.Zero.IsZero() {
		t.Errorf("Unmarshal() = %+v, want %+v", got, want)
	}
}

func TestMarshalIsDeterministic(t *testing.T) {
	m := message{Name: "n", Pairs: map[string]string{"a": "1", "b": "2", "c": "3", "dd": "4"}}
	first, err := Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := Marshal(m)
		if err != nil || !bytes.Equal(first, again) {
			t.Fatalf("Marshal() = %x, %v, want %x as before", again, err, first)
		}
	}
}

func TestReadLimits(t *testing.T) {
	long := message{Name: strings.Repeat("long ", 1000)}
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			var stream bytes.Buffer
			if err := d.write(&stream, long); err != nil {
				t.Fatal(err)
			}
			frame := stream.Bytes()
			if err := d.read(bytes.NewReader(frame), 100, &message{}); !errors.Is(err,
				ErrTooLarge) {
				t.Errorf("read past the limit: %v, want ErrTooLarge", err)
			}
			for cut := 1; cut < len(frame); cut += max(1, len(frame)/7) {
				if err := d.read(bytes.NewReader(frame[:cut]), 1<<20, &message{}); !errors.Is(err,
					io.ErrUnexpectedEOF) {
					t.Errorf("cut at %d: %v, want io.ErrUnexpectedEOF", cut, err)
				}
			}
		})
	}
}

// A small frame may decompress to a large body; the reader stops at its limit.
func TestReadBomb(t *testing.T) {
	var stream bytes.Buffer
	if err := WriteMsgZ(&stream, message{Raw: make([]byte, 32<<20)}); err != nil {
		t.Fatal(err)
	}
	if stream.Len() > 64<<10 {
		t.Fatalf("the frame has %d bytes, want less than %d", stream.Len(), 64<<10)
	}
	if err := readMsgZ(&stream, 1<<20, &message{}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("readMsgZ = %v, want ErrTooLarge", err)
	}
}

// A frame of a few bytes cannot have its reader allocate many. What is written can be read, however
// large it is.
func TestReadWindow(t *testing.T) {
	// magic number, no option, window of 2^(10+exponent) bytes, one block of one byte
	frame := func(exponent byte) []byte {
		return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3, 1 | 1<<3, 0, 0, 0xf6}
	}
	for exponent := range byte(15) {
		body, err := unpack(frame(exponent), 100, unmetered{})
		if large := exponent > 10; (err != nil) != large || !large && len(body) != 1 {
			t.Errorf("a window of 2^%d bytes: %v, %v", 10+exponent, body, err)
		}
	}
	for _, n := range []int{1 << 10, window - 100, window, window + 1, 4*window + 1} {
		sent := message{Raw: make([]byte, n)}
		for i := range sent.Raw {
			sent.Raw[i] = byte(i * i >> 7)
		}
		var stream bytes.Buffer
		var got message
		err := errors.Join(WriteMsgZ(&stream, sent), readMsgZ(&stream, MaxFrame, &got))
		if err != nil || !bytes.Equal(got.Raw, sent.Raw) {
			t.Errorf("a message of %d bytes: %v", n, err)
		}
	}
}

func TestReadHostileLengths(t *testing.T) {
	for _, b := range [][]byte{
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		{0xff, 0xff, 0xff, 0xff, 0x7f},
		binary.AppendUvarint(nil, MaxFrame+1),
	} {
		if err := readMsg(bytes.NewReader(b), MaxFrame*2, &message{}); !errors.Is(err,
			ErrTooLarge) {
			t.Errorf("length %x: %v, want ErrTooLarge", b, err)
		}
	}
	// A length alone does not cost memory.
	claim := binary.AppendUvarint(nil, MaxFrame)
	each := allocates(func() { _ = readMsg(bytes.NewReader(claim), MaxFrame, &message{}) })
	if each > 4*initialBuffer {
		t.Errorf("a length without a body allocates %d bytes, want %d or less",
			each, 4*initialBuffer)
	}
}

// allocates returns how many bytes are allocated by a call of fn.
func allocates(fn func()) uint64 {
	const calls = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		fn()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / calls
}

// The memory for a frame is not allocated many times over while it arrives.
func TestReadAllocatesLittle(t *testing.T) {
	body := make([]byte, 4*initialBuffer)
	each := allocates(func() {
		if _, err := readBody(bytes.NewReader(body), len(body)); err != nil {
			t.Fatal(err)
		}
	})
	if each > 6*initialBuffer {
		t.Errorf("a frame of %d bytes allocates %d bytes", len(body), each)
	}
}

func TestWriteTooLarge(t *testing.T) {
	var w bytes.Buffer
	if err := WriteMsg(&w, make([]byte, MaxFrame)); !errors.Is(err, ErrTooLarge) || w.Len() > 0 {
		t.Errorf("WriteMsg = %v with %d bytes written, want ErrTooLarge and none", err, w.Len())
	}
}

func TestUnmarshalIsStrict(t *testing.T) {
	tests := map[string][]byte{
		"indefinite length": {0x9f, 0x01, 0xff},
		"a tag":             {0xc1, 0x01},
		"bytes left over":   {0x01, 0x01},
		"a repeated key":    {0xa2, 0x01, 0x61, 'a', 0x01, 0x61, 'b'},
		"deep nesting":      bytes.Repeat([]byte{0x81}, 100),
		"a bare count":      {0x9b, 0, 0, 0, 1, 0, 0, 0, 0},
		"nothing":           {},
	}
	for name, b := range tests {
		var v any
		if err := Unmarshal(b, &v); err == nil {
			var m message
			if Unmarshal(b, &m) == nil {
				t.Errorf("%s: Unmarshal() = nil, want an error", name)
			}
		}
	}
	// Fields of a later version are skipped.
	later, err := Marshal(map[int]any{1: "name", 99: []string{"new"}})
	if err != nil {
		t.Fatal(err)
	}
	var m message
	if err := Unmarshal(later, &m); err != nil || m.Name != "name" {
		t.Errorf("Unmarshal() = %+v, %v with an unknown key, want the name", m, err)
	}
}

func FuzzReadMsg(f *testing.F) {
	for _, d := range dialects {
		var stream bytes.Buffer
		if err := d.write(&stream, message{Name: "seed", List: []uint64{1, 2},
			Inner: &message{Raw: []byte{0}}}); err != nil {
			f.Fatal(err)
		}
		f.Add(stream.Bytes())
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		for _, d := range dialects {
			r := bytes.NewReader(b)
			var m message
			if d.read(r, limit, &m) != nil {
				continue
			}
			var again bytes.Buffer
			if err := d.write(&again, m); err != nil {
				t.Fatalf("%s: write = %v for a message that was read, want nil", d.name, err)
			}
			var m2 message
			if err := d.read(&again, 16*limit, &m2); err != nil {
				t.Fatalf("%s: read = %v for a message that was written, want nil", d.name, err)
			}
		}
	})
}

// readMsg and readMsgZ read one frame of at most max bytes into the pointer v, without limits on
// memory.
func readMsg(r io.Reader, max int, v any) error { return readFrame(r, max, v, false) }

func readMsgZ(r io.Reader, max int, v any) error { return readFrame(r, max, v, true) }

func readFrame(r io.Reader, max int, v any, packed bool) error {
	n, err := readLength(r, max)
	if err != nil {
		return err
	}
	body, err := readBody(r, n)
	if err != nil {
		return err
	}
	return decode(body, max, v, packed, unmetered{})
}

type unmetered struct{}

func (unmetered) Use(int) error { return nil }
