//go:build integration

package replica

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"peerd/overlay/wire"
)

// The tests of this file judge real time, or take long.

// Modes of a fake replica.
const (
	modeNormal    = iota
	modeSilent    // like a stopped process, or a broken connection
	modeTakesNone // like a hanging store
	modeAcksNone
)

// The owner notices a hanging replica by what it owes, although the connection is up.
func TestHangingReplica(t *testing.T) {
	t.Parallel()
	for name, how := range map[string]int32{"silent": modeSilent, "takes nothing": modeTakesNone,
		"acknowledges nothing": modeAcksNone} {
		t.Run(name, func(t *testing.T) {
			ha, hb := hostPair(t)
			var mode atomic.Int32
			fakeReplica(t, hb, &mode)
			a := startMember(t, ha, open(t, ""), nil)
			addOwned(t, a.db, subnet)
			addHost(t, a.db, other, "o.test", 3)
			for _, p := range []netip.Prefix{subnet, other} {
				if err := a.Follow(p, hb.ID(), 1); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the subnet is synced", func() bool {
					return a.State(p, hb.ID()).Synced
				})
			}
			push(t, a.db, "a.test", 3000, 3010)
			flush(t, a, subnet)
			began := time.Now()
			eventually(t, "the replica is heard", func() bool {
				return a.State(subnet, hb.ID()).Heard.After(began)
			})
			mode.Store(how)
			push(t, a.db, "a.test", 3010, 3020)
			eventually(t, "the replica is silent while the link is up", func() bool {
				st := a.State(subnet, hb.ID())
				return st.Err == nil && time.Since(st.Heard) > 3*time.Second
			})
			// A subnet that owes nothing is affected by the link, but not by another subnet.
			if how == modeAcksNone {
				found := time.Now()
				eventually(t, "the subnet that owes nothing is heard", func() bool {
					return a.State(other, hb.ID()).Heard.After(found)
				})
				if st := a.State(subnet, hb.ID()); !st.Heard.Before(found) {
					t.Error("the subnet that owes something was heard")
				}
			} else if took := time.Since(a.State(other, hb.ID()).Heard); took < 2*time.Second {
				t.Errorf("a subnet that owes nothing was heard %v ago, want silence", took)
			}
		})
	}
}

// fakeReplica serves a replica without a store, in the given mode.
func fakeReplica(t *testing.T, h host.Host, mode *atomic.Int32) {
	t.Helper()
	server := wire.Serve(h, proto, ownerLimits, slog.New(slog.DiscardHandler),
		func(ctx context.Context, c *wire.Conn) error {
			var took uint64
			frames := make(chan ownerFrame)
			go func() {
				defer close(frames)
				for {
					var d ownerFrame
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
				u := replicaFrame{Taken: took}
				switch how := mode.Load(); {
				case how == modeSilent:
					continue
				case d.isHeartbeat():
				case how == modeTakesNone:
					continue
				default:
					took++
					u.Taken = took
					u.Replies, u.Acks = answerFrame(d, how)
				}
				if err := c.SendZ(u); err != nil {
					return err
				}
			}
			return nil
		})
	t.Cleanup(server.Close)
}

// answerFrame returns the replies of a replica that has everything.
func answerFrame(d ownerFrame, how int32) (replies []openReply, acks []ack) {
	switch {
	case d.Open != nil:
		replies = []openReply{{Subnet: d.Open.Subnet, ID: d.Open.ID, Status: statusOK}}
	case how == modeAcksNone:
	case d.Piece != nil && len(d.Piece.Next) == 0:
		acks = []ack{{Subnet: d.Piece.Subnet, Pos: d.Piece.Start, Complete: true}}
	case d.Records != nil:
		acks = []ack{{Subnet: d.Records.Subnet, Pos: LogPos{Log: d.Records.Log,
			Seq: d.Records.First - 1 + uint64(len(d.Records.Records))}, Complete: true}}
	}
	return replies, acks
}

// A Flush does not wait for the snapshot of another subnet.
func TestFlushOvertakesSnapshots(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	addHost(t, a.db, other, "large.test", 60_000)
	follow(t, a, other, b)
	eventually(t, "the snapshot has began", func() bool {
		h, _ := b.Copy(other)
		return h.Pos.Log != 0
	})
	n := 0
	for ; ; n++ {
		if h, _ := b.Copy(other); h.Complete {
			break
		}
		push(t, a.db, "c.test", n, n+1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		if err := a.Flush(ctx, subnet); err != nil {
			t.Errorf("Flush() = %v in round %d, want nil", err, n)
		}
		cancel()
	}
	if n < 2 {
		t.Errorf("%d flushes while a snapshot was sent, want 2 or more", n)
	}
	flush(t, a, other)
	checkSame(t, a.db, b.db, subnet)
	checkSame(t, a.db, b.db, other)
}

// A Flush waits neither for Config.BatchDelay nor for Config.SyncEvery.
func TestFlushIsFast(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	slow := func(c *Config) {
		c.BatchDelay, c.SyncEvery, c.Heartbeat = time.Hour, time.Hour, 5*time.Second
	}
	a := startMember(t, ha, open(t, t.TempDir()), slow)
	b := startMember(t, hb, open(t, t.TempDir()), slow)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	began := time.Now()
	for i := range 10 {
		push(t, a.db, "c.test", i, i+1)
		flush(t, a, subnet)
	}
	if took := time.Since(began); took > time.Hour/2 { // a single one would wait for an hour
		t.Errorf("ten flushes took %v", took)
	} else {
		t.Logf("a flush took %v", took/10)
	}
}

func TestRandomRestartsMany(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			testRandomRestarts(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}
