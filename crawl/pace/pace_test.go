package pace_test

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/crawl/pace"
	_ "peerd/internal/rapidtest"
)

func pacer(t testing.TB, c pace.Config) *pace.Pacer {
	t.Helper()
	b, err := pace.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func addr(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }

// "wait ten times as long as the download took" (Mercator).
func TestMultipleOfDownloadTime(t *testing.T) {
	b := pacer(t, pace.Config{Factor: 10, Max: time.Minute})
	for range 20 {
		if got := b.Observe(addr(1), 100*time.Millisecond); got < 999*time.Millisecond ||
			got > 1001*time.Millisecond {
			t.Fatalf("pause %v, want 1s", got)
		}
	}
	if got := b.Observe(addr(1), 30*time.Second); got != time.Minute {
		t.Errorf("pause %v, want the maximum", got)
	}
	if got := pacer(t, pace.Config{}).Observe(addr(1), time.Second); got != 0 {
		t.Errorf("pause %v with Factor 0, want 0", got)
	}
}

// A server that alone becomes slow is overloaded and gets a longer pause than its times
// alone would give. If all become slow, the connection of this peer is slow.
func TestOverloadIgnoresCommonDrift(t *testing.T) {
	after := func(slow func(i byte) bool) time.Duration {
		b := pacer(t, pace.Config{Factor: 1, Max: time.Hour})
		var last time.Duration
		for round := range 140 {
			for i := range byte(20) {
				took := 100 * time.Millisecond
				if round >= 100 && slow(i) {
					took *= 8
				}
				if got := b.Observe(addr(i), took); i == 0 {
					last = got
				}
				if round == 106 && i == 0 { // some requests after the change
					return last
				}
			}
		}
		return last
	}
	alone, all := after(func(i byte) bool { return i == 0 }), after(func(byte) bool { return true })
	if alone < 2*800*time.Millisecond {
		t.Errorf("overloaded alone: %v, want at least twice its time of 800ms", alone)
	}
	if all > alone*3/4 {
		t.Errorf("all slow: %v, one slow: %v; common drift must count less", all, alone)
	}
}

// A lasting change becomes usual.
func TestOverloadEnds(t *testing.T) {
	b := pacer(t, pace.Config{Factor: 1, Max: time.Hour})
	var got time.Duration
	for i := range 400 {
		took := 100 * time.Millisecond
		if i >= 100 {
			took = time.Second
		}
		got = b.Observe(addr(1), took)
	}
	if got > 1100*time.Millisecond {
		t.Errorf("after 300 answers of 1s the pause is %v", got)
	}
}

func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := pace.New(pace.Config{Factor: rapid.Float64Range(0, 1000).Draw(t, "factor"),
			Max: time.Minute, Servers: 4})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			took := time.Duration(rapid.Int64().Draw(t, "took"))
			if got := b.Observe(addr(rapid.Byte().Draw(t, "server")), took); got < 0 ||
				got > time.Minute {
				t.Fatalf("Observe(%v) = %v", took, got)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	for _, c := range []pace.Config{{Factor: -1}, {Factor: 1e9}, {Max: -1}, {Servers: -1}} {
		if _, err := pace.New(c); err == nil {
			t.Errorf("New(%+v) succeeded, want an error", c)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	k := pacer(b, pace.Config{Factor: 10, Max: time.Minute})
	for i := 0; b.Loop(); i++ {
		k.Observe(addr(byte(i)), 50*time.Millisecond)
	}
}
