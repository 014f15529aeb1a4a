package record

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/internal/clock"
	_ "peerd/internal/rapidtest"
	"peerd/overlay/overlaytest"
)

// noteType returns the type of notes under the key "k": the greater N is better, then the greater
// text. Notes of one text are of one writer.
func noteType() *Type[string, note] { return &Type[string, note]{noteRules{}} }

type noteRules struct{ voids bool }

func (noteRules) Namespace() string                 { return "test" }
func (noteRules) KeyOf(note) string                 { return "k" }
func (noteRules) CheckTime(note, time.Time) error   { return nil }
func (noteRules) Same(a, b note) bool               { return a.Text == b.Text }
func (r noteRules) Replaces(known, other note) bool { return r.Better(other, known) > 0 }

func (noteRules) Open(sealed []byte) (n note, err error) {
	_, err = fmt.Sscanf(string(sealed), "%d %s", &n.N, &n.Text)
	return n, err
}

func (noteRules) Better(a, b note) int {
	return cmp.Or(cmp.Compare(a.N, b.N), strings.Compare(a.Text, b.Text))
}

// If r.voids, notes are void after N seconds, and are kept up to three bytes.
func (r noteRules) Void(n note, at time.Time) bool { return r.voids && at.Unix() > int64(n.N) }

func (r noteRules) MaxKept() int {
	if r.voids {
		return 3
	}
	return 0
}

func sealNote(n note) []byte { return fmt.Appendf(nil, "%d %s", n.N, n.Text) }

// holder is one record holder. It takes what is put.
type holder struct {
	val  []byte
	err  error
	puts int
}

func (h *holder) Put(_ context.Context, _ string, val []byte) (int, int, error) {
	h.puts++
	if h.err == nil {
		h.val = val
	}
	return 1, 0, h.err
}

func (h *holder) Get(context.Context, string) ([]byte, error) { return h.val, h.err }

func newNotes(t interface{ Fatal(...any) }, v Values) *Register[string, note] {
	key, id := overlaytest.Identity(7)
	r, err := New(noteType(), Config{Self: id, Key: key, Values: v, CacheSize: 9})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

var drawnNotes = rapid.Custom(func(t *rapid.T) note {
	return note{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "by"),
		rapid.IntRange(1, 3).Draw(t, "n")}
})

// What is remembered is the best record, whatever the order in which records arrive; it counts
// as won only if one that is the same was; and the latest time of asking is kept.
func TestKeepIsJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, kind := newNotes(t, &holder{}), noteType()
		all := rapid.SliceOfN(drawnNotes, 1, 6).Draw(t, "notes")
		won := rapid.SampledFrom(all).Draw(t, "won")
		best, asked := all[0], time.Time{}
		for i, n := range all {
			e := Entry[note]{Record: n, Sealed: sealNote(n), Won: n == won,
				Asked: time.Unix(rand.Int64N(1e9), 0)}
			r.Keep(e)
			if kind.Better(n, best) > 0 {
				best = n
			}
			if e.Asked.After(asked) {
				asked = e.Asked
			}
			if got, ok := r.Get("k"); !ok || got.Record != best || !got.Asked.Equal(asked) ||
				string(got.Sealed) != string(sealNote(best)) || got.Won && best.Text != won.Text {
				t.Fatalf("after %v: %+v, want %v asked %v", all[:i+1], got, best, asked)
			}
		}
	})
}

// A read returns the best of the DHT and the memory, and changes neither.
func TestReadDoesNotKeep(t *testing.T) {
	h := &holder{val: sealNote(note{"b", 2})}
	r := newNotes(t, h)
	for _, c := range []struct {
		kept note
		want note
	}{{note{}, note{"b", 2}}, {note{"a", 1}, note{"b", 2}}, {note{"c", 3}, note{"c", 3}}} {
		if c.kept.N > 0 {
			r.Keep(Entry[note]{Record: c.kept})
		}
		if e, ok, err := r.Read(t.Context(), "k"); !ok || err != nil || e.Record != c.want ||
			e.Asked.IsZero() {
			t.Errorf("with %v: got %+v, %v, %v", c.kept, e, ok, err)
		}
		if got, _ := r.Cached("k"); got != c.kept {
			t.Errorf("reading changed %v to %v", c.kept, got)
		}
	}
	h.val = []byte("noise")
	if e, ok, err := r.Read(t.Context(), "k"); !ok || err != nil || e.Record.Text != "c" {
		t.Errorf("with noise in the DHT: %+v, %v, %v", e, ok, err)
	}
	h.err = context.Canceled
	if e, ok, err := r.Read(t.Context(), "k"); !ok || err == nil || e.Record.Text != "c" {
		t.Errorf("with an error of the DHT: %+v, %v, %v", e, ok, err)
	}
}

// A record with a rival in memory is not written; one that is the same is.
func TestWriteAsksMemory(t *testing.T) {
	h := &holder{}
	r := newNotes(t, h)
	r.Keep(Entry[note]{Record: note{"a", 2}})
	mine := note{"b", 1}
	if e, err := r.Publish(t.Context(), mine, sealNote(mine)); err != nil || e.Record.Text != "a" ||
		h.puts != 0 {
		t.Errorf("got %+v, %v after %d puts", e, err, h.puts)
	}
	mine = note{"b", 2}
	if e, err := r.Settle(t.Context(), nil, mine, sealNote(mine)); err != nil || e.Record != mine ||
		!e.Won || e.Asked.IsZero() || h.puts != 1 {
		t.Errorf("got %+v, %v after %d puts", e, err, h.puts)
	}
	h.err = context.Canceled
	mine = note{"c", 3}
	if e, err := r.Publish(t.Context(), mine, sealNote(mine)); err == nil || e.Record.N != 0 {
		t.Errorf("got %+v without an error", e)
	}
	if got, _ := r.Cached("k"); got != (note{"b", 2}) {
		t.Errorf("remembered %v, which may not have been written", got)
	}
}

// What is void counts as unknown, and large records are remembered without their sealed form.
func TestVoidAndMaxKept(t *testing.T) {
	kind, now := &Type[string, note]{noteRules{voids: true}}, time.Unix(100, 0)
	key, id := overlaytest.Identity(7)
	r, err := New(kind, Config{Self: id, Key: key, Values: &holder{}, CacheSize: 1,
		Clock: clock.Of(func() time.Time { return now })})
	if err != nil {
		t.Fatal(err)
	}
	old := note{"a", 200}
	r.Keep(Entry[note]{Record: old, Sealed: sealNote(old), Won: true})
	if _, ok := r.Sealed("k"); ok {
		t.Error("kept a large sealed record")
	}
	now = time.Unix(201, 0)
	if n, ok := r.Cached("k"); ok {
		t.Errorf("%v is void", n)
	}
	if e := r.Keep(Entry[note]{Record: note{"a", 1}}); e.Record.N != 1 || e.Won {
		t.Errorf("a void record stays: %+v", e)
	}
}
