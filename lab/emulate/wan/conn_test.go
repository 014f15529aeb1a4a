package wan

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

const ms = time.Millisecond

// pair returns a connection over l and its remote end, in memory, so that time can be
// virtual.
func pair(t testing.TB, l Link) (near *Conn, far net.Conn) {
	a, b := net.Pipe()
	c := newConn(a, l, rand.New(rand.NewPCG(1, 2)), func(*Conn) {})
	t.Cleanup(func() { c.abort(); b.Close() })
	return c, b
}

func readN(t *testing.T, r io.Reader, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestDelayAndBandwidthAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		start := time.Now()
		if _, err := near.Write(bytes.Repeat([]byte{1}, 10_000)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("write within the window took %v, want 0", took)
		}
		readN(t, far, 1)
		if took, want := time.Since(start), 50*ms+2048*time.Microsecond; took != want {
			t.Errorf("first piece arrived after %v, want %v", took, want)
		}
		readN(t, far, 9_999)
		if took, want := time.Since(start), 60*ms; took != want {
			t.Errorf("10,000 bytes at 1 MB/s arrived after %v, want %v", took, want)
		}

		start = time.Now()
		go func() { _, _ = far.Write([]byte("back")) }()
		readN(t, near, 4)
		if took, want := time.Since(start), 50*ms+4*time.Microsecond; took != want {
			t.Errorf("opposite direction took %v, want %v", took, want)
		}
	})
}

// Jitter delays and never reorders; what arrives is what was sent.
func TestBytesArriveInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		writes := rapid.SliceOfN(rapid.IntRange(1, 20_000), 1, 30).Draw(rt, "writes")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 40), len(writes), len(writes)).Draw(rt, "pauses")
		synctest.Test(t, func(t *testing.T) {
			near, far := pair(t, Link{RTT: 20 * ms, Jitter: 30 * ms, Bps: 3e6})
			var sent bytes.Buffer
			rng := rand.NewChaCha8([32]byte{})
			go func() {
				for i, n := range writes {
					b := make([]byte, n)
					_, _ = rng.Read(b)
					sent.Write(b)
					_, _ = near.Write(b)
					<-time.After(time.Duration(pauses[i]) * ms)
				}
				_ = near.Close()
			}()
			got, err := io.ReadAll(far)
			if err != nil || !bytes.Equal(got, sent.Bytes()) {
				t.Errorf("received %d bytes, %v, want %d", len(got), err, sent.Len())
			}
		})
	})
}

func TestWritesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 10 * ms, Bps: 1e6})
		_ = near.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := near.Write(make([]byte, 1<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n > minWindow+64<<10 {
			t.Fatalf("Write without a reader = %d, %v, want %v", n, err, os.ErrDeadlineExceeded)
		}
		_ = near.SetWriteDeadline(time.Time{})
		go func() { _, _ = io.Copy(io.Discard, far) }()
		start := time.Now()
		if _, err := near.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 900*ms || took > 1200*ms {
			t.Errorf("1 MiB at 1 MB/s was accepted in %v, want 0.9s to 1.2s", took)
		}
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		b := make([]byte, 10)
		start := time.Now()
		_ = near.SetReadDeadline(start.Add(30 * ms))
		_, err := near.Read(b)
		var ne net.Error
		if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) != 30*ms {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if _, err := near.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("I/O after the deadline: err = %v", err)
		}
		_ = near.SetDeadline(time.Time{})
		go func() { _, _ = far.Write([]byte("late")) }()
		if n, err := near.Read(b); n != 4 || err != nil {
			t.Fatalf("after removal of the deadline: %d bytes, err = %v", n, err)
		}
		// changed while a reader waits
		time.AfterFunc(20*ms, func() { _ = near.SetReadDeadline(time.Unix(1, 0)) })
		start = time.Now()
		if _, err := near.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != 20*ms {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	})
}

func TestCloseIsSeenOneWayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		_, _ = near.Write([]byte("bye"))
		start := time.Now()
		if err := near.Close(); err != nil || time.Since(start) != 0 {
			t.Fatalf("Close took %v, %v", time.Since(start), err)
		}
		if got, err := io.ReadAll(far); string(got) != "bye" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		if took := time.Since(start); took < 50*ms || took > 51*ms {
			t.Errorf("end of stream arrived after %v, want 50ms", took)
		}
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
		if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestRemoteEndIsSeenOneWayLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		start := time.Now()
		_ = far.Close()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 50*ms {
			t.Errorf("remote end saw Close after %v, want 50ms", took)
		}
	})
}

// A remote end that never reads keeps a closed connection for at most a second;
// synctest.Test fails if a goroutine does not return.
func TestCloseEndsWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		start := time.Now()
		ended := make(chan struct{})
		c := newConn(a, Link{RTT: 100 * ms, Bps: 1e6}, rand.New(rand.NewPCG(1, 2)), func(*Conn) {
			close(ended)
		})
		_, _ = c.Write(make([]byte, 30_000))
		_ = c.Close()
		<-ended
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("goroutines returned after %v, want at most 2s", took)
		}
	})
}
