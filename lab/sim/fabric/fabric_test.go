package fabric

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// world has two machines with latencies of 20 ms from a to b and 30 ms from b to a,
// and a connection from a to b.
type world struct {
	t    *testing.T
	f    *Fabric
	a, b *Host
	x, y net.Conn // a's end and b's
}

// inWorld runs fn in a bubble.
func inWorld(t *testing.T, fn func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, f: New(func(from, to netip.Addr) time.Duration {
			if from == addrA {
				return 20 * ms
			}
			return 30 * ms
		})}
		w.a, w.b = w.f.Up(addrA), w.f.Up(addrB)
		w.x, w.y = w.connect()
		fn(w)
		w.a.Kill(Reset)
		w.b.Kill(Reset)
	})
}

func (w *world) connect() (x, y net.Conn) {
	w.t.Helper()
	ln, err := w.b.Listen(80)
	if err != nil {
		w.t.Fatal(err)
	}
	defer ln.Close()
	if x, err = w.a.DialContext(w.t.Context(), "tcp", "10.0.0.2:80"); err != nil {
		w.t.Fatal(err)
	}
	if y, err = ln.Accept(); err != nil {
		w.t.Fatal(err)
	}
	return x, y
}

// took returns how long fn takes.
func took(fn func()) time.Duration {
	begin := time.Now()
	fn()
	return time.Since(begin)
}

// reads checks the data and the error of one Read of c, and that the call takes exactly
// within.
func (w *world) reads(c net.Conn, want string, wantErr error, within time.Duration) {
	w.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var n int
	var err error
	b := make([]byte, 100)
	if d := took(func() { n, err = c.Read(b) }); d != within {
		w.t.Errorf("read took %v, want %v", d, within)
	}
	if string(b[:n]) != want || !errors.Is(err, wantErr) {
		w.t.Errorf("read %q, %v; want %q, %v", b[:n], err, want, wantErr)
	}
}

func (w *world) write(c net.Conn, s string) {
	w.t.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		w.t.Errorf("Write(%q) = %d, %v, want %d, nil", s, n, err, len(s))
	}
}

func TestLatency(t *testing.T) {
	inWorld(t, func(w *world) {
		if d := took(func() { w.connect() }); d != 50*ms {
			t.Errorf("dial took %v, want 50ms", d)
		}
		w.write(w.x, "there")
		w.reads(w.y, "there", nil, 20*ms)
		w.write(w.y, "back")
		w.reads(w.x, "back", nil, 30*ms)
		w.f.Slow(addrA, addrB, 100*ms)
		w.write(w.x, "slow")
		w.f.Slow(addrA, addrB, 0)
		w.write(w.x, "quick") // does not overtake
		w.reads(w.y, "slow", nil, 120*ms)
		w.reads(w.y, "quick", nil, 0)
	})
}

func TestClose(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write(w.x, "last")
		_ = w.x.Close()
		w.reads(w.y, "last", nil, 20*ms)
		w.reads(w.y, "", io.EOF, 0)
		if _, err := w.x.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: err = %v, want %v", err, net.ErrClosed)
		}
		w.write(w.y, "too late")
		w.reads(w.y, "", io.EOF, 0)
	})
}

func TestCut(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write(w.x, "on the way")
		w.f.Cut(addrA, addrB)
		w.write(w.y, "this way is open")
		w.reads(w.x, "this way is open", nil, 30*ms)
		w.reads(w.y, "", os.ErrDeadlineExceeded, time.Minute)
		ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Second)
		defer cancel()
		if d := took(func() {
			if _, err := w.a.DialContext(ctx, "tcp", "10.0.0.2:80"); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("dial over a cut link: err = %v, want %v", err, context.DeadlineExceeded)
			}
		}); d != 3*time.Second {
			t.Errorf("dial over a cut link took %v, want 3s", d)
		}
		w.f.Cut(addrA, addrB)
		w.f.Heal(addrA, addrB)
		w.reads(w.y, "", os.ErrDeadlineExceeded, time.Minute) // cut twice
		go func() {
			time.Sleep(5 * time.Second)
			w.f.Heal(addrA, addrB)
		}()
		w.reads(w.y, "on the way", nil, 5*time.Second)
	})
}

func TestFreeze(t *testing.T) {
	inWorld(t, func(w *world) {
		w.f.Freeze(addrB)
		w.write(w.x, "1")
		w.write(w.y, "2")
		time.Sleep(time.Second)
		w.reads(w.x, "", os.ErrDeadlineExceeded, time.Minute)
		w.f.Unfreeze(addrB)
		w.reads(w.x, "2", nil, 0)
		w.reads(w.y, "1", nil, 0)
	})
}

func TestKill(t *testing.T) {
	inWorld(t, func(w *world) {
		w.write(w.y, "said")
		w.b.Kill(Reset)
		if _, err := w.y.Write([]byte("x")); !errors.Is(err, errDead) {
			t.Errorf("Write on a dead machine: err = %v, want %v", err, errDead)
		}
		if _, err := w.b.DialContext(w.t.Context(), "tcp", "10.0.0.1:80"); !errors.Is(err,
			errDead) {
			t.Errorf("dial from a dead machine: err = %v, want %v", err, errDead)
		}
		w.reads(w.x, "said", nil, 30*ms)
		w.reads(w.x, "", syscall.ECONNRESET, 0)
		if _, err := w.x.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("Write to a dead machine: err = %v, want %v", err, syscall.ECONNRESET)
		}
		if _, err := w.a.DialContext(w.t.Context(), "tcp", "10.0.0.2:80"); !errors.Is(err,
			syscall.ECONNREFUSED) {
			t.Errorf("dial to a dead machine: err = %v, want %v", err, syscall.ECONNREFUSED)
		}
	})
}

func TestSilentDeath(t *testing.T) {
	inWorld(t, func(w *world) {
		w.b.Kill(Silent)
		w.write(w.x, "hello?")
		w.reads(w.x, "", os.ErrDeadlineExceeded, time.Minute)
		w.b = w.f.Up(addrB)
		w.reads(w.x, "", syscall.ECONNRESET, 30*ms) // the answer to the retransmission
		x, y := w.connect()
		w.write(x, "new")
		w.reads(y, "new", nil, 20*ms)
	})
}

// Lost segments arrive later, in order, with varying delays.
func TestLossy(t *testing.T) {
	inWorld(t, func(w *world) {
		w.f.Lossy(addrA, addrB, 0.5)
		late := 0
		for i := range 200 {
			text := string(rune('a' + i%26))
			w.write(w.x, text)
			begin := time.Now()
			got := make([]byte, 1)
			if _, err := io.ReadFull(w.y, got); err != nil || string(got) != text {
				t.Fatalf("read %q, %v, want %q", got, err, text)
			}
			if d := time.Since(begin); d > 20*ms {
				late++
				if d < resend {
					t.Errorf("segment %d retransmitted after %v, want at least %v", i, d, resend)
				}
			}
		}
		if late < 70 || late > 130 {
			t.Errorf("%d of 200 segments were lost, want 70 to 130", late)
		}
		w.f.Lossy(addrA, addrB, 0)
		w.write(w.x, "z")
		w.reads(w.y, "z", nil, 20*ms)
	})
}

func TestDrop(t *testing.T) {
	inWorld(t, func(w *world) {
		if n := w.f.Drop(addrB, addrA); n != 1 {
			t.Errorf("Drop() = %d, want 1", n)
		}
		w.reads(w.x, "", syscall.ECONNRESET, 30*ms)
		w.reads(w.y, "", syscall.ECONNRESET, 0)
		_, _ = w.x.Close(), w.y.Close()
		if n := len(w.f.conns); n != 0 {
			t.Errorf("%d connections are left, want 0", n)
		}
	})
}

func TestWindow(t *testing.T) {
	inWorld(t, func(w *world) {
		done := make(chan time.Duration)
		go func() { done <- took(func() { w.write(w.x, string(make([]byte, window+1))) }) }()
		time.Sleep(time.Second)
		if _, err := io.ReadFull(w.y, make([]byte, window+1)); err != nil {
			t.Error(err)
		}
		if d := <-done; d != time.Second {
			t.Errorf("write of window+1 bytes took %v, want 1s, until the read", d)
		}
		_ = w.x.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := w.x.Write(make([]byte, 2*window)); n != window ||
			!errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v, want %d, %v", n, err, window, os.ErrDeadlineExceeded)
		}
	})
}
