package overlay

import (
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// traffic counts the bytes on all streams of a host. It stands in for libp2p's
// BandwidthCounter, which keeps rates per peer and protocol, and a goroutine
// for the life of the process, for two sums.
type traffic struct {
	sent, received atomic.Int64
}

var _ metrics.Reporter = (*traffic)(nil)

// LogSentMessage adds to what was sent.
func (t *traffic) LogSentMessage(n int64) { t.sent.Add(n) }

// LogRecvMessage adds to what was received.
func (t *traffic) LogRecvMessage(n int64) { t.received.Add(n) }

// GetBandwidthTotals returns the sums; rates are not kept.
func (t *traffic) GetBandwidthTotals() metrics.Stats {
	return metrics.Stats{TotalOut: t.sent.Load(), TotalIn: t.received.Load()}
}

// The rest of metrics.Reporter tells streams, peers and protocols apart, which
// nobody asks for.

func (t *traffic) LogSentMessageStream(int64, protocol.ID, peer.ID)      {}
func (t *traffic) LogRecvMessageStream(int64, protocol.ID, peer.ID)      {}
func (t *traffic) GetBandwidthForPeer(peer.ID) metrics.Stats             { return metrics.Stats{} }
func (t *traffic) GetBandwidthForProtocol(protocol.ID) metrics.Stats     { return metrics.Stats{} }
func (t *traffic) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (t *traffic) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (t *traffic) Reset()                                                {}
func (t *traffic) TrimIdle(time.Time)                                    {}
