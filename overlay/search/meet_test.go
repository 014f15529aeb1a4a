package search

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store"
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

// A meeting that fails is repeated with the same hosts, and nothing is remembered of peers that
// never answer.
func TestMeetingFails(t *testing.T) {
	t.Parallel()
	var docs []index.Document
	for i := range maxMeet + 2 {
		docs = append(docs, index.Document{URL: store.URL(fmt.Sprintf("http://h%d.example/", i)),
			Text: "apple", Type: "html", FetchedAt: day})
	}
	l := local(t, docs)
	l.Ranks = &index.Ranks{}
	h, _ := serve(t, local(t, pages(2, 20)))
	s := asking(t, l, h)
	r := newRanker(s)
	if err := r.readLinks(); err != nil {
		t.Fatal(err)
	}
	gone, info := overlaytest.Host(t), peer.AddrInfo{ID: h.ID(), Addrs: h.Addrs()}
	gone.Close()
	if err := r.meet(t.Context(), peer.AddrInfo{ID: gone.ID()}); err == nil || len(r.met) > 0 {
		t.Errorf("a peer that is gone: %v, %d meetings are remembered", err, len(r.met))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		ctx  context.Context
		next string
	}{{ended, ""}, {t.Context(), l.Ranks.Hosts()[maxMeet]}} {
		err := r.meet(tt.ctx, info)
		if next := r.met[h.ID()].next; (err != nil) != (next == "") || next != tt.next {
			t.Errorf("meet() = %v, the next meeting begins with %q, want %q", err, next, tt.next)
		}
	}
}
