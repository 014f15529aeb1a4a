package overlay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// Bytes is what went over streams, without the framing and encryption beneath
// them.
type Bytes struct {
	Sent, Received int64
}

// traffic counts the bytes on all streams of a host, by protocol. It stands in
// for libp2p's BandwidthCounter, which keeps rates per peer and protocol, and a
// goroutine for the life of the process, for a few sums.
type traffic struct {
	sent, received atomic.Int64
	protocols      sync.Map // protocol.ID to *tally: as many as the host speaks
}

type tally struct {
	sent, received atomic.Int64
}

var _ metrics.Reporter = (*traffic)(nil)

// LogSentMessage adds to what was sent.
func (t *traffic) LogSentMessage(n int64) { t.sent.Add(n) }

// LogRecvMessage adds to what was received.
func (t *traffic) LogRecvMessage(n int64) { t.received.Add(n) }

// LogSentMessageStream adds to what was sent over a protocol. What is sent
// before the two sides have agreed on one counts under "".
func (t *traffic) LogSentMessageStream(n int64, p protocol.ID, _ peer.ID) { t.of(p).sent.Add(n) }

// LogRecvMessageStream adds to what was received over a protocol.
func (t *traffic) LogRecvMessageStream(n int64, p protocol.ID, _ peer.ID) { t.of(p).received.Add(n) }

func (t *traffic) of(p protocol.ID) *tally {
	if c, ok := t.protocols.Load(p); ok {
		return c.(*tally)
	}
	c, _ := t.protocols.LoadOrStore(p, &tally{})
	return c.(*tally)
}

// byProtocol returns the sums so far.
func (t *traffic) byProtocol() map[protocol.ID]Bytes {
	all := make(map[protocol.ID]Bytes)
	t.protocols.Range(func(p, c any) bool {
		all[p.(protocol.ID)] = Bytes{Sent: c.(*tally).sent.Load(), Received: c.(*tally).received.Load()}
		return true
	})
	return all
}

// GetBandwidthTotals returns the sums; rates are not kept.
func (t *traffic) GetBandwidthTotals() metrics.Stats {
	return metrics.Stats{TotalOut: t.sent.Load(), TotalIn: t.received.Load()}
}

// The rest of metrics.Reporter tells peers apart, which nobody asks for.

func (t *traffic) GetBandwidthForPeer(peer.ID) metrics.Stats             { return metrics.Stats{} }
func (t *traffic) GetBandwidthForProtocol(protocol.ID) metrics.Stats     { return metrics.Stats{} }
func (t *traffic) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (t *traffic) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (t *traffic) Reset()                                                {}
func (t *traffic) TrimIdle(time.Time)                                    {}
