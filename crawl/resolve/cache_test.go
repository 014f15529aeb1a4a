package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

// server is a Lookup that counts, takes its time, and answers by table.
type server struct {
	delay   time.Duration
	asked   atomic.Int64
	answers map[string]any // []netip.Addr or error
}

func (s *server) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	s.asked.Add(1)
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch a := s.answers[host].(type) {
	case []netip.Addr:
		return a, nil
	case error:
		return nil, a
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func TestAddrs(t *testing.T) {
	var many []netip.Addr
	for i := range 100 {
		many = append(many, netip.AddrFrom4([4]byte{198, 51, 100, byte(99 - i)}))
	}
	srv := &server{answers: map[string]any{
		"a.example":    addrs("2001:db8::1", "203.0.113.2", "203.0.113.1", "::ffff:203.0.113.2"),
		"none.example": []netip.Addr{},
		"zone.example": addrs("fe80::1%eth0"),
		"down.example": &net.DNSError{Err: "server misbehaving", IsTemporary: true},
		"slow.example": context.DeadlineExceeded,
		"odd.example":  errors.New("odd"),
		"gone.example": fmt.Errorf("wrapped: %w", ErrNotFound),
		"many.example": many,
	}}
	c := New(Config{Lookup: srv.lookup, Overrides: map[string][]netip.Addr{
		"Over.Example.": addrs("127.1.0.2", "127.1.0.1", "127.1.0.2"),
		"empty.example": nil,
		"203.0.113.77":  addrs("127.1.0.3"),
	}})
	tests := []struct {
		host string
		want []netip.Addr
		err  error
	}{
		{"a.example", addrs("203.0.113.1", "203.0.113.2", "2001:db8::1"), nil},
		{"A.Example.", addrs("203.0.113.1", "203.0.113.2", "2001:db8::1"), nil},
		{"none.example", nil, ErrNotFound},
		{"zone.example", nil, ErrNotFound},
		{"missing.example", nil, ErrNotFound},
		{"gone.example", nil, ErrNotFound},
		{"empty.example", nil, ErrNotFound},
		{"down.example", nil, ErrTemporary},
		{"slow.example", nil, ErrTemporary},
		{"odd.example", nil, ErrTemporary},
		{"over.example", addrs("127.1.0.1", "127.1.0.2"), nil},
		{"203.0.113.77", addrs("127.1.0.3"), nil},
		{"203.0.113.9", addrs("203.0.113.9"), nil},
		{"2001:db8::9", addrs("2001:db8::9"), nil},
		{"::ffff:203.0.113.9", addrs("203.0.113.9"), nil},
		{"fe80::1%eth0", nil, ErrNotFound},
		{"", nil, ErrNotFound},
		{".", nil, ErrNotFound},
		{"a..example", nil, ErrNotFound},
		{"a b", nil, ErrNotFound},
		{"[2001:db8::1]", nil, ErrNotFound},
		{strings.Repeat("a", 64) + ".example", nil, ErrNotFound},
		{strings.Repeat("a.", 127) + "a", nil, ErrNotFound},
	}
	for _, tt := range tests {
		got, err := c.Addrs(t.Context(), tt.host)
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
			t.Errorf("Addrs(%q) = %v, %v, want %v, %v", tt.host, got, err, tt.want, tt.err)
		}
		if errors.Is(err, ErrNotFound) && errors.Is(err, ErrTemporary) {
			t.Errorf("Addrs(%q): %v is both", tt.host, err)
		}
	}
	if got, err := c.Addrs(t.Context(), "many.example"); len(got) != maxAddrs || err != nil || got[0] != many[99] {
		t.Errorf("many: %v, %v", got, err)
	}
	asked := srv.asked.Load()
	c.Addrs(t.Context(), "203.0.113.9")
	c.Addrs(t.Context(), "over.example")
	c.Addrs(t.Context(), "bad host")
	if n := srv.asked.Load(); n != asked {
		t.Errorf("asked %d times for what needs no asking", n-asked)
	}
}

func TestCallerOwnsAnswer(t *testing.T) {
	srv := &server{answers: map[string]any{"a.example": addrs("203.0.113.1")}}
	c := New(Config{Lookup: srv.lookup, Overrides: map[string][]netip.Addr{"b.example": addrs("203.0.113.2")}})
	for _, host := range []string{"a.example", "b.example"} {
		first, _ := c.Addrs(t.Context(), host)
		want := first[0]
		first[0] = netip.Addr{}
		if again, _ := c.Addrs(t.Context(), host); again[0] != want {
			t.Errorf("%s: %v after the caller wrote into its slice", host, again)
		}
	}
}

func TestLifetimes(t *testing.T) {
	cfg := DefaultConfig()
	for _, tt := range []struct {
		name   string
		answer any
		life   time.Duration
	}{
		{"found", addrs("203.0.113.1"), cfg.TTL},
		{"not found", ErrNotFound, cfg.NegativeTTL},
		{"temporary", errors.New("down"), cfg.Retry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &server{answers: map[string]any{"a.example": tt.answer}}
				c := New(Config{Lookup: srv.lookup})
				ask := func() int64 {
					c.Addrs(t.Context(), "a.example")
					return srv.asked.Load()
				}
				ask()
				time.Sleep(tt.life - time.Millisecond)
				if n := ask(); n != 1 {
					t.Errorf("asked %d times within %v", n, tt.life)
				}
				time.Sleep(time.Millisecond)
				if n := ask(); n != 2 {
					t.Errorf("asked %d times after %v", n, tt.life)
				}
			})
		})
	}
}

// TestTimed holds that everybody who waits is told how long the lookup took,
// and nobody who need not.
func TestTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second, answers: map[string]any{"a.example": addrs("203.0.113.1"), "down.example": errors.New("down")}}
		c := New(Config{Lookup: srv.lookup})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, took, err := c.Timed(t.Context(), "a.example"); took != time.Second || err != nil {
					t.Errorf("%v, %v", took, err)
				}
			})
			time.Sleep(time.Second / 3)
		}
		wg.Wait()
		if _, took, err := c.Timed(t.Context(), "down.example"); took != time.Second || !errors.Is(err, ErrTemporary) {
			t.Errorf("failed: %v, %v", took, err)
		}
		for _, host := range []string{"a.example", "down.example", "203.0.113.9", "a b"} {
			if _, took, _ := c.Timed(t.Context(), host); took != 0 {
				t.Errorf("%s: %v", host, took)
			}
		}
	})
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second, answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: srv.lookup})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
					t.Errorf("%v, %v", got, err)
				}
			})
		}
		wg.Wait()
		if n := srv.asked.Load(); n != 1 || len(c.flights) != 0 {
			t.Errorf("asked %d times, %d flights left", n, len(c.flights))
		}
	})
}

// TestWaitersAreIndependent has the first caller give up: the lookup goes on
// for the second one.
func TestWaitersAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second, answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: srv.lookup})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() {
			if _, err := c.Addrs(short, "a.example"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("first: %v", err)
			}
		}()
		synctest.Wait()
		if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
			t.Errorf("second: %v, %v", got, err)
		}
		if n := srv.asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestLastWaiterCancels has everybody give up: the lookup ends, and leaves
// nothing behind that a later caller would take for an answer.
func TestLastWaiterCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second, answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: srv.lookup})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.Addrs(short, "a.example"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTemporary) {
			t.Errorf("given up: %v", err)
		}
		synctest.Wait()
		if len(c.flights) != 0 || c.answers.Len() != 0 {
			t.Errorf("%d flights, %d answers left", len(c.flights), c.answers.Len())
		}
		if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
			t.Errorf("later: %v, %v", got, err)
		}
	})
}

func TestLookupTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Hour}
		c := New(Config{Lookup: srv.lookup, Timeout: 3 * time.Second})
		start := time.Now()
		if _, err := c.Addrs(t.Context(), "a.example"); !errors.Is(err, ErrTemporary) || time.Since(start) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

func TestBoundedLeastRecentlyUsedGoes(t *testing.T) {
	srv := &server{}
	c := New(Config{Lookup: srv.lookup, Max: 2})
	for _, host := range []string{"a", "b", "a", "c", "a", "b"} {
		c.Addrs(t.Context(), host)
	}
	if n := srv.asked.Load(); n != 4 { // a, b, c, and b again
		t.Errorf("asked %d times, want 4", n)
	}
	if n := c.answers.Len(); n != 2 {
		t.Errorf("%d answers kept", n)
	}
}

func TestValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{TTL: -1, Max: -1, Overrides: map[string][]netip.Addr{"": addrs("127.0.0.1"), "x": nil}}
	err := bad.Validate()
	for _, want := range []string{"TTL", "Max", "no host", `"x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not tell of %s", err, want)
		}
	}
}

// TestAnswerShape holds what callers rely on, whatever a server says.
func TestAnswerShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Custom(func(t *rapid.T) netip.Addr {
			n := rapid.SampledFrom([]int{0, 4, 16}).Draw(t, "length")
			a, _ := netip.AddrFromSlice(rapid.SliceOfN(rapid.ByteRange(0, 2), n, n).Draw(t, "bytes"))
			return a
		})).Draw(t, "answer")
		c := New(Config{Lookup: func(context.Context, string) ([]netip.Addr, error) { return raw, nil }})
		got, err := c.Addrs(context.Background(), "a.example")
		if (err == nil) != (len(got) > 0) {
			t.Fatalf("%v, %v", got, err)
		}
		for i, a := range got {
			if !a.IsValid() || a.Is4In6() || i > 0 && got[i-1].Compare(a) >= 0 {
				t.Fatalf("%v from %v", got, raw)
			}
		}
	})
}

// TestSystemLookup needs no name server: localhost is in every hosts file.
func TestSystemLookup(t *testing.T) {
	got, err := New(Config{}).Addrs(t.Context(), "localhost")
	if err != nil {
		t.Skip("no localhost here:", err)
	}
	for _, a := range got {
		if !a.IsLoopback() {
			t.Errorf("localhost is %v", got)
		}
	}
}

// Fresh asks whatever is remembered, and what it learns is remembered; overrides
// and literals hold.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: srv.lookup, Overrides: map[string][]netip.Addr{"b.example": addrs("203.0.113.9")}})
		ask := func(get func(context.Context, string) ([]netip.Addr, error), host, want string, asked int64) {
			t.Helper()
			got, err := get(t.Context(), host)
			if err != nil || len(got) != 1 || got[0].String() != want || srv.asked.Load() != asked {
				t.Errorf("%s: %v, %v after %d look-ups", host, got, err, srv.asked.Load())
			}
		}
		ask(c.Addrs, "a.example", "203.0.113.1", 1)
		srv.answers["a.example"] = addrs("198.51.100.1")
		ask(c.Addrs, "a.example", "203.0.113.1", 1)
		ask(c.Fresh, "a.example", "198.51.100.1", 2)
		ask(c.Addrs, "a.example", "198.51.100.1", 2)
		ask(c.Fresh, "b.example", "203.0.113.9", 2)
		ask(c.Fresh, "203.0.113.7", "203.0.113.7", 2)
	})
}
