package shadow

import (
	"context"
	"errors"
	"fmt"
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

// cutter is a host whose streams break at their n-th read or write.
type cutter struct {
	host.Host
	mu   sync.Mutex
	left int
	cuts int
}

func (c *cutter) set(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

// due counts an operation, and says whether the line is cut at it.
func (c *cutter) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left != 0 {
		return false
	}
	c.cuts++
	return true
}

func (c *cutter) NewStream(ctx context.Context, p peer.ID, protos ...protocol.ID) (network.Stream, error) {
	s, err := c.Host.NewStream(ctx, p, protos...)
	if err != nil {
		return nil, err
	}
	return &cutStream{s, c}, nil
}

var errCut = errors.New("the line is cut")

type cutStream struct {
	network.Stream
	c *cutter
}

func (s *cutStream) Write(b []byte) (int, error) {
	if s.c.due() {
		_ = s.Reset()
		return 0, errCut
	}
	return s.Stream.Write(b)
}

func (s *cutStream) Read(b []byte) (int, error) {
	if s.c.due() {
		_ = s.Reset()
		return 0, errCut
	}
	return s.Stream.Read(b)
}

// Wherever the line breaks the copy is whole in the end, and whatever it calls
// whole before is so.
func TestCutAnywhere(t *testing.T) {
	ha, hb := hostPair(t)
	stride := 1
	if testing.Short() {
		stride = 4
	}
	for n := 1; ; n += stride {
		c := &cutter{Host: ha, left: n}
		a, b := join(t, c, open(t, ""), nil), join(t, hb, open(t, ""), nil)
		own(t, a.db, subnet)
		follow(t, a, subnet, b)
		for i := range 3 {
			push(t, a.db, "c.test", 10*i, 10*i+10)
			eventually(t, "flushed", func() bool { return a.Flush(within(t), subnet) == nil })
			same(t, a.db, b.db, subnet)
		}
		if t.Failed() {
			t.Fatalf("cut at %d", n)
		}
		a.stop()
		b.stop()
		_, _ = a.db.Close(), b.db.Close()
		if c.cuts == 0 {
			if n < 10 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// Kills of either side, on stores that are opened again, and cuts of the line, in
// any order, while the owner goes on crawling: in the end the copy is the
// owner's state.
func TestKilledAtRandom(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killedAtRandom(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

func killedAtRandom(t *testing.T, r *rand.Rand) {
	ha, hb := hostPair(t)
	c := &cutter{Host: ha}
	adir, bdir := t.TempDir(), t.TempDir()
	a, b := join(t, c, open(t, adir), nil), join(t, hb, open(t, bdir), nil)
	own(t, a.db, subnet)
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
			a = join(t, c, open(t, adir), nil)
			follow(t, a, subnet, b)
		case 1:
			b.stop()
			_ = b.db.Close()
			b = join(t, hb, open(t, bdir), nil)
		case 2:
			c.set(1 + r.IntN(30))
		case 3:
			eventually(t, "flushed", func() bool { return a.Flush(within(t), subnet) == nil })
			same(t, a.db, b.db, subnet)
		}
	}
	c.set(0)
	eventually(t, "flushed", func() bool { return a.Flush(within(t), subnet) == nil })
	same(t, a.db, b.db, subnet)
}

// A snapshot goes on where it was: what was sent before a break is not sent
// again, and what has changed behind it is in the log.
func TestSnapshotGoesOn(t *testing.T) {
	ha, hb := hostPair(t)
	adir, bdir := t.TempDir(), t.TempDir()
	a, b := join(t, ha, open(t, adir), nil), join(t, hb, open(t, bdir), nil)
	own(t, a.db, subnet)
	plant(t, a.db, subnet, "d.test", 30_000)
	follow(t, a, subnet, b)
	eventually(t, "some pieces have come", func() bool {
		h, _ := b.Copy(subnet)
		return h.Pos.Log != 0
	})
	b.stop()
	before := b.place(t)
	if len(before.At) == 0 {
		t.Skip("it was faster than this test")
	}
	_ = b.db.Close()
	crawl(t, a.db, "a.test", 40) // behind the cursor
	push(t, a.db, "d.test", 30_000, 30_100)
	a.stop()
	_ = a.db.Close()
	b = join(t, hb, open(t, bdir), nil)
	if h, ok := b.Copy(subnet); !ok || h.Complete || h.Live || !h.Heard.IsZero() {
		t.Fatalf("after the start there is %+v", h)
	}
	if _, err := b.Promote(subnet); !errors.Is(err, ErrIncomplete) {
		t.Errorf("promoted: %v", err)
	}
	a = join(t, ha, open(t, adir), nil)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	same(t, a.db, b.db, subnet)
	if after := b.place(t); after.Pos.Log != before.Pos.Log || after.Size.URLs > 32_000 {
		t.Errorf("it was begun again: %+v, before %+v", after, before)
	}
}

// place is how far the copy is, as it is in memory.
func (m *member) place(t testing.TB) place {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[subnet].place
}

// A log that was cut, or broken off and begun anew, means a new snapshot over
// what there is.
func TestLogIsGone(t *testing.T) {
	ha, hb := hostPair(t)
	bdir := t.TempDir()
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, bdir), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	for i, cut := range []func() error{
		func() error { head, _, _ := a.db.TailHead(subnet); return a.db.TrimTail(subnet, head.Seq) },
		func() error { return a.db.StopTail(subnet) },
		func() error { return a.db.StartTail(subnet, 77, store.TailPos{}) },
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
		b = join(t, hb, open(t, bdir), nil)
		eventually(t, "flushed", func() bool { return a.Flush(within(t), subnet) == nil })
		same(t, a.db, b.db, subnet)
	}
}
