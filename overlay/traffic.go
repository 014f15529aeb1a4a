package overlay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Bytes counts the bytes of streams, without framing and encryption beneath them.
type Bytes struct {
	Sent, Received int64
}

// traffic counts the bytes on all streams of a host, by protocol. It replaces
// libp2p's BandwidthCounter, which keeps rates per peer and protocol and leaves a
// goroutine running.
type traffic struct {
	sent, received atomic.Int64
	protocols      sync.Map // protocol.ID to *byteCounts: as many as the host speaks
}

type byteCounts struct {
	sent, received atomic.Int64
}

var _ metrics.Reporter = (*traffic)(nil)

// LogSentMessage adds to the bytes sent.
func (t *traffic) LogSentMessage(n int64) { t.sent.Add(n) }

// LogRecvMessage adds to the bytes received.
func (t *traffic) LogRecvMessage(n int64) { t.received.Add(n) }

// LogSentMessageStream adds to the bytes sent over a protocol. Bytes sent before the two
// sides have agreed on one count under "".
func (t *traffic) LogSentMessageStream(n int64, p protocol.ID, _ peer.ID) { t.of(p).sent.Add(n) }

// LogRecvMessageStream adds to the bytes received over a protocol.
func (t *traffic) LogRecvMessageStream(n int64, p protocol.ID, _ peer.ID) {
	t.of(p).received.Add(n)
}

func (t *traffic) of(p protocol.ID) *byteCounts {
	if c, ok := t.protocols.Load(p); ok {
		return c.(*byteCounts)
	}
	c, _ := t.protocols.LoadOrStore(p, &byteCounts{})
	return c.(*byteCounts)
}

// byProtocol returns the sums so far.
func (t *traffic) byProtocol() map[protocol.ID]Bytes {
	all := make(map[protocol.ID]Bytes)
	t.protocols.Range(func(p, c any) bool {
		n := c.(*byteCounts)
		all[p.(protocol.ID)] = Bytes{Sent: n.sent.Load(), Received: n.received.Load()}
		return true
	})
	return all
}

// GetBandwidthTotals returns the sums. Rates are not kept.
func (t *traffic) GetBandwidthTotals() metrics.Stats {
	return metrics.Stats{TotalOut: t.sent.Load(), TotalIn: t.received.Load()}
}

// The other methods of metrics.Reporter distinguish peers, which is not needed.

func (t *traffic) GetBandwidthForPeer(peer.ID) metrics.Stats             { return metrics.Stats{} }
func (t *traffic) GetBandwidthForProtocol(protocol.ID) metrics.Stats     { return metrics.Stats{} }
func (t *traffic) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (t *traffic) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (t *traffic) Reset()                                                {}
func (t *traffic) TrimIdle(time.Time)                                    {}
