package pace_test

import (
	"math"
	"math/rand/v2"
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

const ms = time.Millisecond

func addr(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }

// "wait ten times as long as the download took" (Mercator).
func TestMultipleOfDownloadTime(t *testing.T) {
	b := pacer(t, pace.Config{Factor: 10, Max: time.Minute})
	for range 20 {
		if got, _ := b.Observe(addr(1), 100*time.Millisecond, ms, 1); got < 999*time.Millisecond ||
			got > 1001*time.Millisecond {
			t.Fatalf("pause %v, want 1s", got)
		}
	}
	if got, _ := b.Observe(addr(1), 30*time.Second, ms, 1); got != time.Minute {
		t.Errorf("pause %v, want the maximum", got)
	}
	if got, _ := pacer(t, pace.Config{}).Observe(addr(1), time.Second, ms, 1); got != 0 {
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
				if got, _ := b.Observe(addr(i), took, took, 1); i == 0 {
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
	var trend pace.Trend
	for i := range 400 {
		took := 100 * time.Millisecond
		if i >= 100 {
			took = time.Second
		}
		got, trend = b.Observe(addr(1), took, took, 1)
	}
	if got > 1100*time.Millisecond || trend != pace.Usual {
		t.Errorf("after 300 answers of 1s the pause is %v, trend %v", got, trend)
	}
}

// The trend is that of the time until the first byte: large answers and new connections do not
// count, and neither does what all servers have in common. It is known without pauses, too.
func TestTrend(t *testing.T) {
	for _, tt := range []struct {
		name        string
		took, first time.Duration
		want        pace.Trend
	}{
		{"as usual", 100 * ms, 50 * ms, pace.Usual},
		{"large answers", 10 * time.Second, 50 * ms, pace.Usual},
		{"a little longer", 120 * ms, 60 * ms, pace.Usual},
		{"longer", 150 * ms, 100 * ms, pace.Slower},
		{"much longer", 450 * ms, 400 * ms, pace.Overloaded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := pacer(t, pace.Config{Max: time.Hour})
			for range 100 {
				if _, got := b.Observe(addr(1), 100*ms, 50*ms, 1); got != pace.Usual {
					t.Fatalf("trend %v, want usual", got)
				}
			}
			var got pace.Trend
			for range 5 {
				_, got = b.Observe(addr(1), tt.took, tt.first, 1)
			}
			if got != tt.want {
				t.Errorf("trend %v, want %v", got, tt.want)
			}
		})
	}
}

// What a server does with more and more requests at a time is noticed before it becomes usual.
func TestSlowerWithSlots(t *testing.T) {
	b := pacer(t, pace.Config{Max: time.Hour})
	for range 50 {
		b.Observe(addr(1), 100*ms, 100*ms, 1)
	}
	for slots := 2; ; slots++ {
		took := time.Duration(max(slots, 4)) * 25 * ms // four at a time are no load
		trend := pace.Usual
		for range slots {
			_, trend = b.Observe(addr(1), took, took, slots)
		}
		if trend == pace.Overloaded {
			t.Logf("overloaded with %d slots, %v", slots, took)
			break
		}
		if took > 250*ms {
			t.Fatalf("trend %v with %d slots, %v, want overload", trend, slots, took)
		}
	}
}

// An address with many hosts answers in many times: the hosts differ, and that is no overload.
func TestManyHosts(t *testing.T) {
	for _, tt := range []struct{ deviation, most float64 }{
		{0.5, 0.005}, {1, 0.03}, {1.5, 0.1}, // a deviation of 1 is a factor of 2.7
	} {
		b := pacer(t, pace.Config{Factor: 10, Max: time.Minute})
		r := rand.New(rand.NewPCG(1, 2))
		hosts := make([]float64, 200)
		for i := range hosts {
			hosts[i] = r.NormFloat64() * tt.deviation
		}
		const answers = 20_000
		overloaded := 0.0
		for range answers {
			d := time.Duration(math.Exp(hosts[r.IntN(200)]+.2*r.NormFloat64()) * 100 * float64(ms))
			if _, trend := b.Observe(addr(1), d, d, 1); trend == pace.Overloaded {
				overloaded++
			}
		}
		t.Logf("deviation %v: %.3f of the answers", tt.deviation, overloaded/answers)
		if overloaded/answers > tt.most {
			t.Errorf("deviation %v: overload after %.3f of the answers, want at most %v",
				tt.deviation, overloaded/answers, tt.most)
		}
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
			first := time.Duration(rapid.Int64().Draw(t, "first"))
			if got, _ := b.Observe(addr(rapid.Byte().Draw(t, "server")), took, first,
				rapid.IntRange(1, 64).Draw(t, "slots")); got < 0 ||
				got > time.Minute {
				t.Fatalf("Observe(%v, %v) = %v", took, first, got)
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
		k.Observe(addr(byte(i)), 50*ms, ms, 1)
	}
}
