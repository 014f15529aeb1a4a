package shadow

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"peerd/overlay/wire"
)

func TestMarks(t *testing.T) {
	var ms marks
	begin := time.Now()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	ms.add(1, at(0))
	ms.add(5, at(markEvery/2)) // belongs to the mark before
	ms.add(3, at(5*markEvery)) // sent again
	ms.add(6, at(6*markEvery))
	if len(ms) != 2 || ms[0] != (mark{5, at(0)}) || ms[1] != (mark{6, at(6 * markEvery)}) {
		t.Fatalf("%v", ms)
	}
	if got := ms.drop(4); !got.IsZero() || len(ms) != 2 {
		t.Errorf("half a mark is dropped: %v, %v", got, ms)
	}
	if got := ms.drop(5); got != at(0) || len(ms) != 1 {
		t.Errorf("%v, %v", got, ms)
	}
	if got := ms.drop(9); got != at(6*markEvery) || ms != nil {
		t.Errorf("%v, %v", got, ms)
	}
	for i := range uint64(2 * maxMarks) {
		ms.add(i+1, at(time.Duration(i)*markEvery))
	}
	if len(ms) != maxMarks || ms[maxMarks-1].seq != 2*maxMarks {
		t.Errorf("%d marks, the last %v", len(ms), ms[len(ms)-1])
	}
}

// ways of a replica that has stopped to do its part.
const (
	itWorks     = iota
	itIsSilent  // as one that is stopped, or cut off
	itTakesNone // as one whose store hangs
	itAcksNone
)

// A replica that hangs is known by what it owes, while its socket is as good as ever.
func TestHang(t *testing.T) {
	for name, how := range map[string]int32{"silent": itIsSilent, "takes in nothing": itTakesNone, "acknowledges nothing": itAcksNone} {
		t.Run(name, func(t *testing.T) {
			ha, hb := hostPair(t)
			var way atomic.Int32
			fakeReplica(t, hb, &way)
			a := join(t, ha, open(t, ""), nil)
			own(t, a.db, subnet)
			plant(t, a.db, other, "o.test", 3)
			for _, p := range []netip.Prefix{subnet, other} {
				if err := a.Follow(p, hb.ID(), Open{Epoch: 1}); err != nil {
					t.Fatal(err)
				}
				eventually(t, "in sync", func() bool { return a.State(p, hb.ID()).Synced })
			}
			push(t, a.db, "a.test", 3000, 3010)
			flush(t, a, subnet)
			began := time.Now()
			eventually(t, "it goes on being heard", func() bool { return a.State(subnet, hb.ID()).Heard.After(began) })
			way.Store(how)
			push(t, a.db, "a.test", 3010, 3020)
			eventually(t, "it is not heard, and the link is up", func() bool {
				st := a.State(subnet, hb.ID())
				return st.Err == nil && time.Since(st.Heard) > 3*time.Second
			})
			// What owes nothing hangs with the link, but not with another subnet.
			idle := time.Since(a.State(other, hb.ID()).Heard)
			if hangs := how != itAcksNone; hangs != (idle > 2*time.Second) {
				t.Errorf("a subnet that owes nothing was heard %v ago", idle)
			}
		})
	}
}

// fakeReplica keeps a copy in no store, in the way that is asked for.
func fakeReplica(t *testing.T, h host.Host, way *atomic.Int32) {
	t.Helper()
	server := wire.Serve(h, proto, downLimits, slog.New(slog.DiscardHandler), func(ctx context.Context, c *wire.Conn) error {
		var took uint64
		frames := make(chan down)
		go func() {
			defer close(frames)
			for {
				var d down
				if c.RecvZ(&d) != nil {
					return
				}
				select {
				case frames <- d:
				case <-ctx.Done():
					return
				}
			}
		}()
		for d := range frames {
			u := up{Took: took}
			switch how := way.Load(); {
			case how == itIsSilent:
				continue
			case d.beat():
			case how == itTakesNone:
				continue
			default:
				took++
				u.Took = took
				u.Haves, u.Acks = says(d, how)
			}
			if err := c.SendZ(u); err != nil {
				return err
			}
		}
		return nil
	})
	t.Cleanup(server.Close)
}

// says is what a replica says that has everything.
func says(d down, how int32) (haves []have, acks []ack) {
	switch {
	case d.Open != nil:
		haves = []have{{Subnet: d.Open.Subnet, Turn: d.Open.Turn, Verdict: verdictOK}}
	case how == itAcksNone:
	case d.Snap != nil && len(d.Snap.Next) == 0:
		acks = []ack{{Subnet: d.Snap.Subnet, Pos: d.Snap.Start, Whole: true}}
	case d.Tail != nil:
		acks = []ack{{Subnet: d.Tail.Subnet, Pos: TailPos{Log: d.Tail.Log, Seq: d.Tail.First - 1 + uint64(len(d.Tail.Records))}, Whole: true}}
	}
	return haves, acks
}

// A replica knows until when it was counted on, by what its owner says it has heard:
// not by what comes from the owner, which may have lain in a buffer.
func TestCounted(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	began := time.Now()
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	eventually(t, "it is counted on", func() bool { h, _ := b.Copy(subnet); return h.Complete && h.Counted.After(began) })
	later := time.Now()
	eventually(t, "it goes on", func() bool { h, _ := b.Copy(subnet); return h.Counted.After(later) })
	a.stop()
	end := time.Now()
	eventually(t, "the link ends", func() bool { h, _ := b.Copy(subnet); return !h.Live })
	if h, _ := b.Copy(subnet); h.Counted.After(end) || h.Counted.Before(later) {
		t.Errorf("counted on until %v after the end", h.Counted.Sub(end))
	}

	// An owner whom no answer reaches: the copy is opened, and nothing is known.
	hc, hd := hostPair(t)
	d := join(t, hd, open(t, ""), nil)
	l := lie(t, hc, hd)
	l.open(Open{Subnet: subnet, Epoch: 1, Lease: []byte("lease"), Log: 5})
	l.send(down{Snap: &snap{Subnet: subnet, Start: TailPos{Log: 5, Seq: 1}, Until: 1, Ops: pieces(t, subnet, host1("x.test", subnet, subnet))}})
	eventually(t, "the copy is whole", func() bool { h, _ := d.Copy(subnet); return h.Complete })
	for range 3 {
		l.send(down{})
	}
	h, _ := d.Copy(subnet)
	eventually(t, "the beats are heard", func() bool { now, _ := d.Copy(subnet); return now.Heard.After(h.Heard) })
	if h, _ := d.Copy(subnet); !h.Counted.IsZero() {
		t.Errorf("counted on until %v", h.Counted)
	}
	for n := uint64(1); ; n++ { // until those that were sent at once are among them
		if h, _ := d.Copy(subnet); !h.Counted.IsZero() {
			break
		}
		var u up
		if err := l.c.RecvZ(&u); err != nil {
			t.Fatal(err)
		}
		l.send(down{Heard: n})
	}
}
