package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
	"peerd/store/warc"
)

// maxLinks is how many peers a collector follows at a time, and sweepEvery the time between two
// calls of Sink.Sweep. The first is that long after the start, when the other peers are known.
const maxLinks, sweepEvery = 1024, 6 * time.Hour

// A Sink stores what is collected. Its methods may be called concurrently.
type Sink interface {
	// Position returns the stored position in the archive of a peer, in a map of its own.
	Position(p peer.ID) (map[string]int64, error)
	// Save stores exchanges of a peer and then the position after them, or what has changed of
	// it, durably. What it has of them already it leaves out.
	Save(p peer.ID, at map[string]int64, all []warc.Exchange) error
	// Version returns the body of the version of a page that was saved last for a peer, if it is of
	// that time, known, and has at most MaxDelta bytes.
	Version(p peer.ID, url string, at time.Time) ([]byte, bool)
	// Sweep is called now and then with the peers of the network, so that the positions of those
	// that have been gone for long can be removed.
	Sweep(known []peer.AddrInfo) error
}

// Collector follows the archives of all peers. Its fields are set before Run.
type Collector struct {
	Host     host.Host
	Protocol protocol.ID
	// Peers returns the other peers.
	Peers wire.Peers
	Sink  Sink
	// Hosts are the hosts to collect; none: all.
	Hosts []string
	// Topics are queries as index.Parse reads them: pages that match one are collected, too. With
	// Topics and no Hosts only those. Read reads pages; it is needed for topics.
	Topics []string
	Read   Reader
	// Look is how often Peers is asked, and Retry the first wait after a conversation has
	// failed; the longest is 16 times as long.
	Look, Retry time.Duration
	Logger      *slog.Logger
}

// Run collects until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	var g sync.WaitGroup
	defer g.Wait()
	var mu sync.Mutex
	links, swept := map[peer.ID]bool{}, time.Now()
	for {
		known := c.Peers.Infos()
		if time.Since(swept) >= sweepEvery {
			swept = time.Now()
			if err := c.Sink.Sweep(known); err != nil {
				c.Logger.Warn("failed to remove positions of peers that are gone", "err", err)
			}
		}
		for _, p := range known {
			mu.Lock()
			start := !links[p.ID] && len(links) < maxLinks
			if start {
				links[p.ID] = true
			}
			mu.Unlock()
			if start {
				g.Go(func() {
					c.follow(ctx, p.ID)
					mu.Lock()
					defer mu.Unlock()
					delete(links, p.ID)
				})
			}
		}
		if backoff.Sleep(ctx, c.Look) != nil {
			return nil
		}
	}
}

// info returns a peer if it is still known.
func (c *Collector) info(id peer.ID) (peer.AddrInfo, bool) {
	for _, p := range c.Peers.Infos() {
		if p.ID == id {
			return p, true
		}
	}
	return peer.AddrInfo{}, false
}

// follow collects from a peer until it is not known any more or ctx ends.
func (c *Collector) follow(ctx context.Context, id peer.ID) {
	for failed := 0; ; failed++ {
		p, ok := c.info(id)
		if !ok {
			return
		}
		packets, err := c.converse(ctx, p)
		if ctx.Err() != nil {
			return
		}
		if packets > 0 {
			failed = 0
		}
		wait := backoff.Jitter(backoff.Double(c.Retry, 16*c.Retry, failed))
		c.Logger.Debug("lost the feed of peer", "peer", id, "retry_in", wait, "err", err)
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// converse stores the packets of a peer until the conversation fails, and returns their number.
func (c *Collector) converse(ctx context.Context, p peer.AddrInfo) (packets int, err error) {
	at, err := c.Sink.Position(p.ID)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dial, stop := context.WithTimeout(ctx, messageTime)
	err = c.Host.Connect(dial, p)
	stop()
	if err != nil {
		return 0, err
	}
	conn, err := wire.Dial(ctx, c.Host, p.ID, wire.Limits{MaxMsg: maxPacket,
		Timeout: messageTime}, c.Protocol)
	if err != nil {
		return 0, err
	}
	defer conn.Reset()
	r := request{Hosts: c.Hosts, At: at, Topics: c.Topics}
	if err := conn.Send(r); err != nil {
		return 0, err
	}
	f, err := newFilter(c.Hosts, c.Topics, c.Read)
	if err != nil {
		return 0, err
	}
	for ; ; packets++ {
		var in packet
		if err := conn.RecvZ(&in); err != nil {
			return packets, err
		}
		err := c.store(p.ID, &in, f, at, conn.Use)
		if err != nil && !errors.Is(err, errPlain) {
			return packets, err
		}
		if err := conn.Send(ack{Stored: err == nil, Plain: err != nil}); err != nil {
			return packets, err
		}
	}
}

// store checks and stores a packet, and advances at, the position before it.
func (c *Collector) store(
	p peer.ID, in *packet, f *filter, at map[string]int64, use memory,
) error {
	if in.Refused != "" {
		return fmt.Errorf("refused: %.*q", maxReason, in.Refused)
	}
	if err := in.check(); err != nil {
		return err
	}
	if len(in.At) == 0 {
		return nil
	}
	maps.Copy(at, in.At)
	if err := warc.CheckPosition(at); err != nil { // the next request would be refused
		return fmt.Errorf("%w: %w", ErrPacket, err)
	}
	use = use.within(maxWhole + 2*MaxDelta)
	all := make([]warc.Exchange, 0, len(in.Items))
	for _, i := range in.Items {
		if !f.mayWant(i.URL) {
			return errors.Join(ErrPacket, errors.New("an exchange of another host"))
		}
		if i.Base != 0 {
			if err := c.whole(p, &i, use); err != nil {
				return err
			}
		}
		if i.From = p.String(); f.wants(&i.Exchange) {
			all = append(all, i.Exchange)
		}
	}
	return c.Sink.Save(p, in.At, all)
}
