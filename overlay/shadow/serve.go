package shadow

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
)

// inlink is the replica's end of the stream of one owner. Guarded by
// Service.mu.
type inlink struct {
	id      uint64 // by chance
	owner   peer.ID
	heard   time.Time
	panel   []byte    // told on it
	copies  int       // open on it
	useful  time.Time // when there was one, or the link was new
	counted time.Time // up to then the owner counted on us, see pulse.go
	answers uint64    // sent
	sent    marks     // when, of those that the owner has not said it has
	took    uint64
	told    uint64 // of took
	haves   []have
	dirty   map[netip.Prefix]ack // not acknowledged yet
	urgent  bool                 // somebody waits for an acknowledgement
	synced  time.Time            // when dirty was last empty
	kick    chan struct{}
	cancel  context.CancelFunc
	done    chan struct{} // closed when its handler has left
}

// serve is a conversation with an owner. The same owner's next one ends it.
func (s *Service) serve(ctx context.Context, c *wire.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &inlink{
		id: rand.Uint64() | 1, owner: c.Peer(), heard: time.Now(), useful: time.Now(), dirty: map[netip.Prefix]ack{}, kick: make(chan struct{}, 1),
		cancel: cancel, done: make(chan struct{}),
	}
	defer close(in.done)
	if !s.enroll(ctx, in) {
		return ctx.Err()
	}
	defer s.dismiss(in)
	stop := context.AfterFunc(ctx, c.Reset)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if s.answer(ctx, in, c) != nil {
			c.Reset()
		}
	})
	for {
		var d down
		if err := c.RecvZ(&d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !s.listen(in, d) {
			return errIdle
		}
		if err := s.take(in, d); err != nil {
			return err
		}
		if !s.took(in, d) {
			return errDeaf
		}
	}
}

// enroll makes in the link of its owner, once an earlier one has ended.
func (s *Service) enroll(ctx context.Context, in *inlink) bool {
	for {
		s.mu.Lock()
		old := s.inlinks[in.owner]
		if old == nil {
			s.inlinks[in.owner] = in
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		old.cancel()
		select {
		case <-old.done:
		case <-ctx.Done():
			return false
		}
	}
}

// dismiss ends what was open on a link.
func (s *Service) dismiss(in *inlink) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inlinks, in.owner)
	for _, r := range s.held {
		if r.in == in {
			r.close()
		}
	}
}

// errIdle ends a link that has brought nothing for long: there are only so many.
var errIdle = errors.New("shadow: a link without a copy")

// listen notes that an owner was heard; false ends a link of no use.
func (s *Service) listen(in *inlink, d down) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.heard = time.Now()
	in.echoed(d.Heard)
	if in.copies > 0 {
		in.useful = in.heard
	}
	return in.heard.Sub(in.useful) < idleTime
}

// maxUntold is how many answers wait for an owner to read them.
const maxUntold = 1 << 14

// errDeaf ends the link of an owner who does not read what it is told.
var errDeaf = errors.New("shadow: the owner does not read")

// took counts a frame, so that the owner sends another. It is false when the
// owner reads nothing.
func (s *Service) took(in *inlink, d down) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.beat() {
		in.took++
	}
	in.urgent = in.urgent || d.beat() || d.Tail != nil && d.Tail.Now
	poke(in.kick)
	return len(in.haves) <= maxUntold
}

// answer sends what there is to say: at once that frames were taken in, and
// acknowledgements after a Sync, together.
func (s *Service) answer(ctx context.Context, in *inlink, c *wire.Conn) error {
	idle := time.NewTimer(s.cfg.SyncEvery)
	defer idle.Stop()
	said := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.kick:
		case <-idle.C:
			s.mu.Lock()
			// What takes long to be taken in must not look like silence.
			in.urgent = in.urgent || len(in.dirty) > 0 || time.Since(said) > s.cfg.Beat
			s.mu.Unlock()
		}
		idle.Reset(s.cfg.SyncEvery)
		for more := true; more; {
			var u up
			var say, sync bool
			if u, say, sync, more = s.toSay(in); !say {
				break
			}
			if sync {
				if err := s.sync.Sync(); err != nil {
					s.log.Error("copies not synced", "err", err)
					return err
				}
			}
			s.mu.Lock()
			in.answered(time.Now())
			s.mu.Unlock()
			if err := c.SendZ(u); err != nil {
				return err
			}
			said = time.Now()
		}
	}
}

// toSay takes what is to be said next, if anything is, and whether a Sync has
// to come first.
func (s *Service) toSay(in *inlink) (u up, say, sync, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(in.haves), maxAcks)
	say = in.urgent || in.took > in.told || n > 0
	u.Took, in.told = in.took, in.took
	u.Haves = in.haves[:n:n]
	in.haves = in.haves[n:]
	if !in.urgent && n == 0 && time.Since(in.synced) < s.cfg.SyncEvery {
		return u, say, false, false
	}
	sync = n > 0 || len(in.dirty) > 0
	for p, a := range in.dirty {
		if len(u.Acks) == maxAcks {
			break
		}
		u.Acks = append(u.Acks, a)
		delete(in.dirty, p)
	}
	more = len(in.dirty)+len(in.haves) > 0
	if !more {
		in.urgent, in.synced = false, time.Now()
	}
	return u, say || len(u.Acks) > 0, sync, more
}

// say queues an answer to an Open.
func (s *Service) say(in *inlink, h have) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in.haves = append(in.haves, h)
	poke(in.kick)
}
