package search

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store/index"
)

// counted is a context that counts those that follow it.
type counted struct {
	context.Context
	done      chan struct{}
	followers atomic.Int64
}

func (c *counted) Done() <-chan struct{} { return c.done }

func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.followers.Add(1)
	return func() bool { c.followers.Add(-1); return true }
}

// Nothing is left of a meeting: there is one every few seconds for as long as the peer runs.
func TestMeetingsEnd(t *testing.T) {
	t.Parallel()
	l := local(t, pages(1, 20))
	l.Ranks = &index.Ranks{}
	h, _ := serve(t, local(t, pages(2, 20)))
	s := asking(t, l, h)
	r := newRanker(s)
	if err := r.readLinks(); err != nil {
		t.Fatal(err)
	}
	ctx := &counted{Context: context.Background(), done: make(chan struct{})}
	for range 3 {
		if err := r.meet(ctx, peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}); err != nil {
			t.Fatal(err)
		}
	}
	if n := ctx.followers.Load(); n > 0 || len(r.met) == 0 {
		t.Errorf("%d contexts are left of 3 meetings with %d peers", n, len(r.met))
	}
}
