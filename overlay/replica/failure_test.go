package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/store"
)

// flakyHost is a host that breaks a stream at the n-th read or write.
type flakyHost struct {
	host.Host
	mu   sync.Mutex
	left int
	cuts int
}

func (c *flakyHost) set(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

// count counts an operation, and reports whether the stream breaks at it.
func (c *flakyHost) count() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left != 0 {
		return false
	}
	c.cuts++
	return true
}

func (c *flakyHost) NewStream(
	ctx context.Context, p peer.ID, protos ...protocol.ID,
) (network.Stream, error) {
	s, err := c.Host.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, err
	}
	return &flakyStream{s, c}, nil
}

var errCut = errors.New("broken connection")

type flakyStream struct {
	network.Stream
	c *flakyHost
}

func (s *flakyStream) Write(b []byte) (int, error) {
	if s.c.count() {
		_ = s.Reset()
		return 0, errCut
	}
	return s.Stream.Write(b)
}

func (s *flakyStream) Read(b []byte) (int, error) {
	if s.c.count() {
		_ = s.Reset()
		return 0, errCut
	}
	return s.Stream.Read(b)
}

// Wherever the connection breaks, the copy is exact after the next successful Flush.
func TestConnectionBreaksAnywhere(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	stride := 1
	if testing.Short() {
		stride = 4
	}
	for n := 1; ; n += stride {
		c := &flakyHost{Host: ha, left: n}
		a, b := startMember(t, c, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
		addOwned(t, a.db, subnet)
		follow(t, a, subnet, b)
		for i := range 3 {
			push(t, a.db, "c.test", 10*i, 10*i+10)
			eventually(t, "Flush succeeds", func() bool {
				return a.Flush(withTimeout(t), subnet) == nil
			})
			checkSame(t, a.db, b.db, subnet)
		}
		if t.Failed() {
			t.Fatalf("failed with the connection broken at operation %d", n)
		}
		a.stop()
		b.stop()
		_, _ = a.db.Close(), b.db.Close()
		if c.cuts == 0 {
			if n < 10 {
				t.Errorf("there were %d operations, want at least 10", n)
			}
			return
		}
	}
}

// After restarts of either side and broken connections in any order, while the owner
// crawls, the copy is exact.
func TestRandomRestarts(t *testing.T) {
	t.Parallel()
	testRandomRestarts(t, rand.New(rand.NewPCG(0, 1)))
}

func testRandomRestarts(t *testing.T, r *rand.Rand) {
	ha, hb := hostPair(t)
	c := &flakyHost{Host: ha}
	adir, bdir := t.TempDir(), t.TempDir()
	a, b := startMember(t, c, open(t, adir), nil), startMember(t, hb, open(t, bdir), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	pushed := 0
	for range 25 {
		for range r.IntN(4) {
			push(t, a.db, "c.test", pushed, pushed+20)
			crawl(t, a.db, "a.test", 1+r.IntN(8))
			pushed += 20
		}
		if r.IntN(2) == 0 {
			time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond) // let it get anywhere
		}
		switch r.IntN(5) {
		case 0:
			a.stop()
			_ = a.db.Close()
			a = startMember(t, c, open(t, adir), nil)
			follow(t, a, subnet, b)
		case 1:
			b.stop()
			_ = b.db.Close()
			b = startMember(t, hb, open(t, bdir), nil)
		case 2:
			c.set(1 + r.IntN(30))
		case 3:
			eventually(t, "Flush succeeds", func() bool {
				return a.Flush(withTimeout(t), subnet) == nil
			})
			checkSame(t, a.db, b.db, subnet)
		}
	}
	c.set(0)
	eventually(t, "Flush succeeds", func() bool { return a.Flush(withTimeout(t), subnet) == nil })
	checkSame(t, a.db, b.db, subnet)
}

// After a restart of both sides a snapshot continues where it was; what has changed behind
// its cursor comes by the log.
func TestSnapshotResumes(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	adir, bdir := t.TempDir(), t.TempDir()
	a, b := startMember(t, ha, open(t, adir), nil), startMember(t, hb, open(t, bdir), nil)
	addOwned(t, a.db, subnet)
	addHost(t, a.db, subnet, "d.test", 20_000)
	follow(t, a, subnet, b)
	eventually(t, "some pieces have arrived", func() bool {
		h, _ := b.Copy(subnet)
		return h.Pos.Log != 0
	})
	b.stop()
	before := b.progress(t)
	if len(before.Cursor) == 0 {
		t.Skip("the snapshot was complete before the replica stopped")
	}
	_ = b.db.Close()
	crawl(t, a.db, "a.test", 40) // behind the cursor
	push(t, a.db, "d.test", 20_000, 20_100)
	a.stop()
	_ = a.db.Close()
	b = startMember(t, hb, open(t, bdir), nil)
	if h, ok := b.Copy(subnet); !ok || h.Complete || h.Live || !h.Heard.IsZero() {
		t.Fatalf("Copy() = %+v, %v after the restart, want an incomplete one", h, ok)
	}
	if err := b.Promote(subnet, nil); !errors.Is(err, ErrIncomplete) {
		t.Errorf("Promote() = %v, want ErrIncomplete", err)
	}
	a = startMember(t, ha, open(t, adir), nil)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	checkSame(t, a.db, b.db, subnet)
	if after := b.progress(t); after.Pos.Log != before.Pos.Log || after.Size.URLs > 22_000 {
		t.Errorf("the progress is %+v, was %+v; want the snapshot continued", after, before)
	}
}

// progress returns the progress of the copy in memory.
func (m *member) progress(t testing.TB) copyProgress {
	t.Helper()
	m.copies.mu.Lock()
	defer m.copies.mu.Unlock()
	return m.copies.held[subnet].progress
}

// If the log was trimmed, stopped or started again, a new snapshot replaces the copy.
func TestLogLost(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	bdir := t.TempDir()
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, bdir), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	for i, cut := range []func() error{
		func() error { head, _, _ := a.db.LogHead(subnet); return a.db.TrimLog(subnet, head.Seq) },
		func() error { return a.db.StopLog(subnet) },
		func() error { return a.db.StartLog(subnet, 77, store.LogPos{}) },
	} {
		b.stop()
		_ = b.db.Close()
		push(t, a.db, "c.test", 10*i, 10*i+10)
		crawl(t, a.db, "a.test", 10)
		if err := a.db.DropHost("b.test"); err != nil && i == 0 {
			t.Fatal(err)
		}
		if err := cut(); err != nil {
			t.Fatal(err)
		}
		b = startMember(t, hb, open(t, bdir), nil)
		eventually(t, "Flush succeeds", func() bool {
			return a.Flush(withTimeout(t), subnet) == nil
		})
		checkSame(t, a.db, b.db, subnet)
	}
}
