package owner

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/coords"
)

// TestHistory: samples come back as they were, with times in whole microseconds.
func TestHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		micro := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, 3.6e9).Draw(t, name)) * time.Microsecond
		}
		want := make([]coords.Sample, rapid.IntRange(0, 5).Draw(t, "samples"))
		for i := range want {
			want[i] = coords.Sample{
				Peer: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "peer"),
				At: coords.Coordinate{Height: 1,
					Vec: []float64{rapid.Float64Range(0, 2).Draw(t, "x"), 3}},
				Connect: micro("connect"), FirstByte: micro("first byte"), Body: micro("body"),
				Reused: rapid.Bool().Draw(t, "reused"), Failed: rapid.Bool().Draw(t, "failed"),
				Bytes: rapid.Int64Range(0, 1<<40).Draw(t, "bytes"),
			}
			if rapid.Bool().Draw(t, "known time") {
				want[i].Taken = time.Unix(0, rapid.Int64Range(1, 1<<62).Draw(t, "taken"))
			}
		}
		if got := historyOf(want).samples(); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestHistoryMemory: a download keeps nothing of a sample but a coordinate that is new.
func TestHistoryMemory(t *testing.T) {
	x := coords.Sample{Peer: "a", At: coords.Coordinate{Vec: []float64{1, 2, 3}}}
	h := make(history, 0, 1000)
	h.add(x)
	if n := testing.AllocsPerRun(100, func() { h.add(x) }); n != 0 {
		t.Errorf("%v allocations for a sample with the same coordinate, want none", n)
	}
}

// TestMicros: what took any time at all took at least a microsecond, and no time is negative.
func TestMicros(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]uint32{
		-time.Second: 0, 0: 0, 1: 1, 1001: 2, time.Hour: 3.6e9, 2 * time.Hour: 1<<32 - 1,
	} {
		if got := micros(d); got != want {
			t.Errorf("micros(%v) = %d, want %d", d, got, want)
		}
	}
}
