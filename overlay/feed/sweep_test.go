package feed

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
)

// The sink is told which peers there are now and then, but not before they can be known.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		c := &Collector{Sink: s, Look: time.Minute, Logger: slog.New(slog.DiscardHandler),
			Peers: overlaytest.PeersFunc(func() []peer.AddrInfo { return nil })}
		ctx, cancel := context.WithTimeout(t.Context(), 2*sweepEvery+time.Hour)
		defer cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.swept, []int{0, 0}) {
			t.Errorf("swept with %v known peers, want twice, with none", s.swept)
		}
	})
}
