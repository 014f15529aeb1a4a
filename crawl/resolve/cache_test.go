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

	_ "peerd/internal/rapidtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func addrs(texts ...string) []netip.Addr {
	out := make([]netip.Addr, len(texts))
	for i, s := range texts {
		out[i] = netip.MustParseAddr(s)
	}
	return out
}

// server is a Lookup that counts its calls and answers from a table after a delay.
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
	c := New(Config{Lookup: WithoutTTL(srv.lookup), Overrides: map[string][]netip.Addr{
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
		if !slices.Equal(got, tt.want) || !errors.Is(err, tt.err) ||
			(err == nil) != (tt.err == nil) {
			t.Errorf("Addrs(%q) = %v, %v, want %v, %v", tt.host, got, err, tt.want, tt.err)
		}
		if errors.Is(err, ErrNotFound) && errors.Is(err, ErrTemporary) {
			t.Errorf("Addrs(%q): %v is both", tt.host, err)
		}
	}
	got, err := c.Addrs(t.Context(), "many.example")
	if len(got) != maxAddrs || err != nil || got[0] != many[99] {
		t.Errorf("Addrs(many.example) = %v, %v, want the %d lowest", got, err, maxAddrs)
	}
	asked := srv.asked.Load()
	c.Addrs(t.Context(), "203.0.113.9")
	c.Addrs(t.Context(), "over.example")
	c.Addrs(t.Context(), "bad host")
	if n := srv.asked.Load(); n != asked {
		t.Errorf("%d lookups of names that need none", n-asked)
	}
}

func TestCallerOwnsAnswer(t *testing.T) {
	srv := &server{answers: map[string]any{"a.example": addrs("203.0.113.1")}}
	c := New(Config{
		Lookup:    WithoutTTL(srv.lookup),
		Overrides: map[string][]netip.Addr{"b.example": addrs("203.0.113.2")},
	})
	for _, host := range []string{"a.example", "b.example"} {
		first, _ := c.Addrs(t.Context(), host)
		want := first[0]
		first[0] = netip.Addr{}
		if again, _ := c.Addrs(t.Context(), host); again[0] != want {
			t.Errorf("Addrs(%q) = %v after a change of the first answer, want %v",
				host, again, want)
		}
	}
}

func TestLifetimes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer any
		life   time.Duration
	}{
		{"found", addrs("203.0.113.1"), defaultTTL},
		{"not found", ErrNotFound, defaultNegativeTTL},
		{"temporary", errors.New("down"), failureTTL},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &server{answers: map[string]any{"a.example": tt.answer}}
				c := New(Config{Lookup: WithoutTTL(srv.lookup)})
				ask := func() int64 {
					c.Addrs(t.Context(), "a.example")
					return srv.asked.Load()
				}
				ask()
				time.Sleep(tt.life - time.Millisecond)
				if n := ask(); n != 1 {
					t.Errorf("%d lookups within %v, want 1", n, tt.life)
				}
				time.Sleep(time.Millisecond)
				if n := ask(); n != 2 {
					t.Errorf("%d lookups after %v, want 2", n, tt.life)
				}
			})
		})
	}
}

// TestTakeDuration verifies that the duration of a lookup is returned once.
func TestTakeDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second, answers: map[string]any{
			"a.example": addrs("203.0.113.1"), "down.example": errors.New("down"),
		}}
		c := New(Config{Lookup: WithoutTTL(srv.lookup)})
		for _, host := range []string{"a.example", "down.example"} {
			for range 2 {
				c.Addrs(t.Context(), host)
			}
			if took := c.TakeDuration(host); took != time.Second {
				t.Errorf("TakeDuration(%q) = %v, want 1s", host, took)
			}
			if took := c.TakeDuration(host); took != 0 {
				t.Errorf("second TakeDuration(%q) = %v, want 0", host, took)
			}
		}
	})
}

// TestTTL verifies the bounds of the TTL, and that Refresh does not repeat a lookup at once.
func TestTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, want, repeats time.Duration }{
		{5 * time.Second, minTTL, 5 * time.Second},
		{time.Hour, time.Hour, repeatsFor},
		{100 * time.Hour, maxTTL, repeatsFor},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			c := New(Config{Lookup: func(context.Context, string) (Answer, error) {
				asked++
				return Answer{Addrs: addrs("203.0.113.1"), TTL: tt.ttl}, nil
			}})
			for _, step := range []struct {
				get  func(context.Context, string) ([]netip.Addr, error)
				wait time.Duration
				want int
			}{
				{c.Refresh, 0, 1}, {c.Addrs, 0, 1}, {c.Refresh, tt.repeats - 1, 1},
				{c.Refresh, 1, 2}, {c.Addrs, tt.want - 1, 2}, {c.Addrs, 1, 3},
			} {
				time.Sleep(step.wait)
				if _, err := step.get(t.Context(), "a.example"); err != nil || asked != step.want {
					t.Errorf("TTL %v: %d lookups, %v, want %d", tt.ttl, asked, err, step.want)
				}
			}
		})
	}
}

// TestStale verifies that addresses are used beyond their lifetime only while lookups fail, and
// that Refresh does not return them.
func TestStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failure error
		asked := 0
		c := New(Config{Lookup: func(context.Context, string) (Answer, error) {
			asked++
			return Answer{Addrs: addrs("203.0.113.1"), TTL: time.Hour}, failure
		}})
		check := func(want error, lookups int) {
			t.Helper()
			got, err := c.Addrs(t.Context(), "a.example")
			if !errors.Is(err, want) || want == nil && len(got) != 1 || asked != lookups {
				t.Errorf("Addrs() = %v, %v after %d lookups, want %v after %d", got, err, asked,
					want, lookups)
			}
		}
		check(nil, 1)
		failure = errors.New("down")
		time.Sleep(time.Hour)
		check(nil, 2)
		time.Sleep(retryStale - 1)
		check(nil, 2)
		if _, err := c.Refresh(t.Context(), "a.example"); !errors.Is(err, ErrTemporary) {
			t.Errorf("Refresh() = %v, want ErrTemporary", err)
		}
		time.Sleep(maxStale)
		check(ErrTemporary, 4)
		failure = nil
		time.Sleep(failureTTL)
		check(nil, 5)
		failure = ErrNotFound // an answer, so the addresses are not used any more
		time.Sleep(time.Hour)
		check(ErrNotFound, 6)
	})
}

// TestBusyIsNotCached verifies that a lookup that was not made says nothing about the name.
func TestBusyIsNotCached(t *testing.T) {
	failure := ErrBusy
	c := New(Config{Lookup: func(context.Context, string) (Answer, error) {
		return Answer{Addrs: addrs("203.0.113.1")}, failure
	}})
	_, err := c.Addrs(t.Context(), "a.example")
	if !errors.Is(err, ErrBusy) || errors.Is(err, ErrTemporary) || errors.Is(err, ErrNotFound) {
		t.Errorf("Addrs() = %v, want ErrBusy only", err)
	}
	failure = nil
	if _, err := c.Addrs(t.Context(), "a.example"); err != nil {
		t.Errorf("Addrs() = %v, want addresses", err)
	}
}

func TestSingleFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second,
			answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: WithoutTTL(srv.lookup)})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
					t.Errorf("Addrs(a.example) = %v, %v, want one address", got, err)
				}
			})
		}
		wg.Wait()
		if n := srv.asked.Load(); n != 1 || len(c.calls) != 0 {
			t.Errorf("%d lookups, %d calls left, want 1, 0", n, len(c.calls))
		}
	})
}

// TestWaitersAreIndependent verifies that a lookup continues for the second caller when the first
// one stops waiting.
func TestWaitersAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second,
			answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: WithoutTTL(srv.lookup)})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() {
			if _, err := c.Addrs(short, "a.example"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("first caller: error %v, want DeadlineExceeded", err)
			}
		}()
		synctest.Wait()
		if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
			t.Errorf("second caller: %v, %v, want one address", got, err)
		}
		if n := srv.asked.Load(); n != 1 {
			t.Errorf("%d lookups, want 1", n)
		}
	})
}

// TestLastWaiterCancels verifies that a lookup ends when its last caller stops waiting, and that
// no answer of it is cached.
func TestLastWaiterCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Second,
			answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{Lookup: WithoutTTL(srv.lookup)})
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Addrs(short, "a.example")
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrTemporary) {
			t.Errorf("error %v, want DeadlineExceeded", err)
		}
		synctest.Wait()
		if len(c.calls) != 0 || c.answers.Len() != 0 {
			t.Errorf("%d calls, %d answers left, want none", len(c.calls), c.answers.Len())
		}
		if got, err := c.Addrs(t.Context(), "a.example"); len(got) != 1 || err != nil {
			t.Errorf("later caller: %v, %v, want one address", got, err)
		}
	})
}

func TestLookupTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{delay: time.Hour}
		c := New(Config{Lookup: WithoutTTL(srv.lookup)})
		start := time.Now()
		_, err := c.Addrs(t.Context(), "a.example")
		if took := time.Since(start); !errors.Is(err, ErrTemporary) || took != lookupTimeout {
			t.Errorf("error %v after %v, want ErrTemporary after 10s", err, took)
		}
	})
}

func TestEvictsLeastRecentlyUsed(t *testing.T) {
	srv := &server{}
	c := New(Config{Lookup: WithoutTTL(srv.lookup)})
	c.answers.Resize(2)
	for _, host := range []string{"a", "b", "a", "c", "a", "b"} {
		c.Addrs(t.Context(), host)
	}
	if n := srv.asked.Load(); n != 4 { // a, b, c, and b again
		t.Errorf("%d lookups, want 4", n)
	}
	if n := c.answers.Len(); n != 2 {
		t.Errorf("%d cached answers, want 2", n)
	}
}

func TestValidate(t *testing.T) {
	if err := (Config{}).withDefaults().Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{
		NegativeTTL: -1,
		Overrides:   map[string][]netip.Addr{"": addrs("127.0.0.1"), "x": nil},
	}
	err := bad.Validate()
	for _, want := range []string{"NegativeTTL", "no host", `"x"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate() = %v, want it to name %s", err, want)
		}
	}
}

// TestAnswerShape verifies what callers rely on, for any answer of a server.
func TestAnswerShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Custom(func(t *rapid.T) netip.Addr {
			n := rapid.SampledFrom([]int{0, 4, 16}).Draw(t, "length")
			bytes := rapid.SliceOfN(rapid.ByteRange(0, 2), n, n).Draw(t, "bytes")
			a, _ := netip.AddrFromSlice(bytes)
			return a
		})).Draw(t, "answer")
		c := New(Config{Lookup: func(context.Context, string) (Answer, error) {
			return Answer{Addrs: raw}, nil
		}})
		got, err := c.Addrs(context.Background(), "a.example")
		if (err == nil) != (len(got) > 0) {
			t.Fatalf("Addrs() = %v, %v, want either addresses or an error", got, err)
		}
		for i, a := range got {
			if !a.IsValid() || a.Is4In6() || i > 0 && got[i-1].Compare(a) >= 0 {
				t.Fatalf("Addrs() = %v from %v, want ascending order, unmapped", got, raw)
			}
		}
	})
}

// TestRefresh verifies that Refresh replaces a cached answer, but neither overrides nor literals.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{answers: map[string]any{"a.example": addrs("203.0.113.1")}}
		c := New(Config{
			Lookup:    WithoutTTL(srv.lookup),
			Overrides: map[string][]netip.Addr{"b.example": addrs("203.0.113.9")},
		})
		type method func(context.Context, string) ([]netip.Addr, error)
		ask := func(get method, host, want string, lookups int64) {
			t.Helper()
			got, err := get(t.Context(), host)
			n := srv.asked.Load()
			if err != nil || len(got) != 1 || got[0].String() != want || n != lookups {
				t.Errorf("%s: %v, %v after %d lookups, want %s after %d", host, got, err, n,
					want, lookups)
			}
		}
		ask(c.Addrs, "a.example", "203.0.113.1", 1)
		srv.answers["a.example"] = addrs("198.51.100.1")
		ask(c.Addrs, "a.example", "203.0.113.1", 1)
		ask(c.Refresh, "a.example", "198.51.100.1", 2)
		ask(c.Addrs, "a.example", "198.51.100.1", 2)
		ask(c.Refresh, "b.example", "203.0.113.9", 2)
		ask(c.Refresh, "203.0.113.7", "203.0.113.7", 2)
	})
}
