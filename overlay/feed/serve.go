package feed

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"

	"peerd/internal/lru"
	"peerd/overlay/wire"
	"peerd/store/warc"
)

// MaxCollectors is how many collectors a peer serves at a time.
const MaxCollectors = 16

const (
	// maxNear is how many of them may be in one /24 or /48: keys cost nothing.
	maxNear = MaxCollectors / 2
	// hold is how long new exchanges wait for others.
	hold = time.Second
	// readTime bounds the time in which a packet is gathered from an archive of which most is
	// not wanted.
	readTime = 5 * time.Second
	// pollEvery is how often the number of archived exchanges is looked at.
	pollEvery = 200 * time.Millisecond
	// idleAfter is the time after which an empty packet is sent, to see that the collector lives.
	idleAfter = 10 * time.Second
	// messageTime bounds the time for each message.
	messageTime = 30 * time.Second
)

// requestRate limits the conversations that each peer opens.
var requestRate = wire.Rate{PerSecond: 1, Burst: 8, TotalFactor: 16}

// errFull ends the reading of an archive when a packet is full.
var errFull = errors.New("packet is full")

// Server serves the archive of this peer to collectors. Its fields are set before Serve.
type Server struct {
	Host     host.Host
	Protocol protocol.ID
	// Archive is nil if the peer has none.
	Archive *warc.Archive
	// Upload bounds the bytes per second, before compression, to all collectors together; 0:
	// nothing is sent.
	Upload int64
	// Read reads pages for collectors with topics. Nil: they are refused.
	Read   Reader
	Logger *slog.Logger

	limiter wire.Limiter
	budget  *rate.Limiter
	turn    turn // of collectors that want a part
	all     turn // of those that want all

	mu       sync.Mutex
	links    map[peer.ID]*link
	versions *lru.Simple[string, version] // by URL, the last that was sent
}

// link is the conversation with a collector.
type link struct {
	cancel context.CancelFunc
	near   netip.Prefix // the /24 or /48 of its address; invalid if that is not public
}

// Serve answers collectors until the returned wire.Server is closed.
func (s *Server) Serve() *wire.Server {
	s.start()
	return wire.Serve(s.Host, s.Protocol, wire.Limits{MaxMsg: maxRequest, Timeout: messageTime},
		s.Logger, s.handle)
}

// start creates what Serve needs.
func (s *Server) start() {
	s.budget = rate.NewLimiter(rate.Limit(s.Upload), maxPacket)
	s.links = map[peer.ID]*link{}
	s.versions = lru.NewSimple[string, version](maxVersions, nil)
}

func (s *Server) handle(ctx context.Context, c *wire.Conn) error {
	var r request
	if err := c.Recv(&r); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	if s.Archive == nil || s.Upload == 0 {
		return c.SendZ(packet{Refused: "nothing is sent to collectors"})
	}
	f, err := newFilter(r.Hosts, r.Topics, s.Read)
	if err != nil {
		return c.SendZ(packet{Refused: err.Error()})
	}
	ctx, leave := s.enter(ctx, c.Peer(), c.Near())
	if leave == nil {
		return c.SendZ(packet{Refused: "busy"})
	}
	defer leave()
	defer context.AfterFunc(ctx, c.Reset)()
	return s.send(ctx, c, r, f)
}

// enter takes a place for a collector. An earlier conversation with it ends. leave is nil if there
// is no place.
func (s *Server) enter(
	ctx context.Context, p peer.ID, near netip.Prefix,
) (_ context.Context, leave func()) {
	if !s.limiter.Allow(requestRate, p, time.Now()) {
		return ctx, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.links[p]
	if !ok && (len(s.links) >= MaxCollectors || s.crowded(near)) {
		return ctx, nil
	}
	if ok {
		old.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &link{cancel, near}
	s.links[p] = l
	return ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.links[p] == l {
			delete(s.links, p)
		}
	}
}

// crowded reports whether no other collector in a network of addresses is served. The caller holds
// mu.
func (s *Server) crowded(near netip.Prefix) bool {
	n := 0
	for _, l := range s.links {
		if near.IsValid() && l.near == near {
			n++
		}
	}
	return n >= maxNear
}

// send sends packets until the conversation fails.
func (s *Server) send(ctx context.Context, c *wire.Conn, r request, f *filter) error {
	at := r.At
	if at == nil {
		at = map[string]int64{}
	}
	for {
		seen := s.Archive.Stats().Exchanges
		before := maps.Clone(at)
		p, versions, size, err := s.next(ctx, c, at, f, true)
		if err != nil {
			return err
		}
		if len(p.At) == 0 {
			if err := s.await(ctx, c, seen); err != nil {
				return err
			}
			continue
		}
		err = s.deliver(ctx, c, p, size)
		if errors.Is(err, errPlain) {
			at = before
			if p, versions, size, err = s.next(ctx, c, at, f, false); err == nil {
				err = s.deliver(ctx, c, p, size)
			}
		}
		if err != nil {
			return err
		}
		s.sent(versions)
	}
}

// deliver sends a packet of some size when it may be, and waits until it is acknowledged.
func (s *Server) deliver(ctx context.Context, c *wire.Conn, p packet, size int) error {
	if err := s.charge(ctx, c, size); err != nil {
		return err
	}
	return exchange(c, p)
}

// charge takes bytes from the budget, and waits until it has them. What is sent counts also if the
// collector does not acknowledge it.
func (s *Server) charge(ctx context.Context, c *wire.Conn, bytes int) error {
	now := time.Now()
	r := s.budget.ReserveN(now, min(bytes, maxPacket))
	err := s.pause(ctx, c, now.Add(r.DelayFrom(now)), nil)
	if err != nil {
		r.Cancel()
	}
	return err
}

// exchange sends a packet and waits until it is acknowledged.
func exchange(c *wire.Conn, p packet) error {
	if err := c.SendZ(p); err != nil {
		return err
	}
	var a ack
	if err := c.Recv(&a); err != nil {
		return err
	}
	if a.Plain {
		return errPlain
	}
	if !a.Stored {
		return errors.New("the collector has not stored the packet")
	}
	return nil
}

// next is gather, for which a collector waits for its turn.
func (s *Server) next(
	ctx context.Context, c *wire.Conn, at map[string]int64, f *filter, deltas bool,
) (p packet, versions map[string]version, size int, err error) {
	t := &s.turn
	if f.all() {
		t = &s.all
	}
	if err := s.pause(ctx, c, time.Time{}, t.take); err != nil {
		return packet{}, nil, 0, err
	}
	defer t.end()
	return s.gather(ctx, at, f, deltas)
}

// gather reads the next packet, and advances at over it. With deltas, it has the differences of
// pages to the last versions that were sent. versions are those in the packet.
func (s *Server) gather(
	ctx context.Context, at map[string]int64, f *filter, deltas bool,
) (p packet, versions map[string]version, size int, err error) {
	before, begin := maps.Clone(at), time.Now()
	versions = map[string]version{}
	whole := 0 // bytes of the bodies of which there are differences, and of their last versions
	full := func() error {
		if size >= packetSize || whole >= maxWhole || len(p.Items) >= maxItems ||
			time.Since(begin) > readTime {
			return errFull
		}
		return nil
	}
	selection := warc.Selection{MaxBytes: maxExchange,
		Want: f.mayWant,
		Large: func(u string, bytes int64) {
			s.Logger.Warn("left out a page that is too large for collectors", "url", u,
				"bytes", bytes)
		}}
	readCtx, cancel := context.WithTimeout(ctx, 2*readTime)
	defer cancel()
	err = s.Archive.FollowExchanges(readCtx, at, selection, func(x warc.Exchange) error {
		if !f.wants(&x) {
			return full()
		}
		i := item{Exchange: x}
		i.Addr = x.Addr.Unmap()
		if hasDeltas(&x) {
			if _, again := versions[x.URL]; deltas && !again {
				whole += s.difference(&i, &x)
			}
			versions[x.URL] = version{x.At, x.Time}
		}
		size += i.size()
		p.Items = append(p.Items, i)
		return full()
	})
	switch {
	case errors.Is(err, errFull):
	case readCtx.Err() != nil && ctx.Err() == nil: // what is read later is in the next packet
	case errors.Is(err, warc.ErrCorrupt):
		s.Logger.Warn("skipped a part of the archive that cannot be read", "err", err)
	case err != nil:
		return packet{}, nil, 0, err
	}
	for name, offset := range at {
		if before[name] != offset && len(p.At) < warc.MaxFiles {
			if p.At == nil {
				p.At = map[string]int64{}
			}
			p.At[name] = offset
		}
	}
	return p, versions, size, nil
}

// await waits until more than seen exchanges were archived, and then for others.
func (s *Server) await(ctx context.Context, c *wire.Conn, seen int64) error {
	more := func() bool { return s.Archive.Stats().Exchanges != seen }
	if err := s.pause(ctx, c, time.Time{}, more); err != nil {
		return err
	}
	return s.pause(ctx, c, time.Now().Add(hold), nil)
}

// pause waits until a time, or if that is zero until a condition holds. Meanwhile it sends empty
// packets.
func (s *Server) pause(ctx context.Context, c *wire.Conn, end time.Time, cond func() bool) error {
	idle := time.Now().Add(idleAfter)
	for {
		wait := pollEvery
		if !end.IsZero() {
			wait = min(wait, time.Until(end))
		}
		if wait <= 0 || cond != nil && cond() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
		if time.Now().After(idle) {
			if err := exchange(c, packet{}); err != nil {
				return err
			}
			idle = time.Now().Add(idleAfter)
		}
	}
}
