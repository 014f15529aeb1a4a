package replica

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
)

// server has the replica's ends of all streams of owners.
type server struct {
	cfg    *Config
	copies *copies

	mu    sync.Mutex // never held during I/O
	links map[peer.ID]*replicaLink
}

// replicaLink is the replica's end of the stream of one owner.
type replicaLink struct {
	id         uint64 // random
	owner      peer.ID
	witnessSet []byte    // the last one received; for the handler of frames only
	saved      time.Time // value of confirmed that is on the disk; for saveConfirmed only
	wakeup     backoff.Wake
	cancel     context.CancelFunc
	done       chan struct{} // closed when the handler has returned

	mu          sync.Mutex // may be taken while copies.mu or server.mu is held
	heard       time.Time
	copies      int       // open on the link
	lastUseful  time.Time // when a copy was last open, or the link was new
	confirmed   time.Time // until when the owner counted on this peer; see heartbeat.go
	replies     uint64    // sent
	unconfirmed sendTimes // of replies that the owner has not confirmed
	taken       uint64
	reported    uint64 // value of taken sent last
	openReplies []openReply
	unacked     map[netip.Prefix]ack
	urgent      bool      // the owner waits for an acknowledgement
	synced      time.Time // when unacked was last empty
}

// serve is a conversation with an owner. The same owner's next one ends it.
func (s *server) serve(ctx context.Context, c *wire.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &replicaLink{
		id: rand.Uint64() | 1, owner: c.Peer(), heard: time.Now(), lastUseful: time.Now(),
		unacked: map[netip.Prefix]ack{}, wakeup: backoff.NewWake(),
		cancel: cancel, done: make(chan struct{}),
	}
	defer close(in.done)
	if !s.register(ctx, in) {
		return ctx.Err()
	}
	defer s.unregister(in)
	stop := context.AfterFunc(ctx, c.Reset)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		if s.sendReplies(ctx, in, c) != nil {
			c.Reset()
		}
	})
	for {
		var d ownerFrame
		if err := c.RecvZ(&d); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !in.onFrame(d) {
			return errIdle
		}
		if err := s.handleFrame(in, d); err != nil {
			return err
		}
		if !in.onTaken(d) {
			return errUnread
		}
	}
}

// register makes in the current link of its owner, after an earlier one has ended.
func (s *server) register(ctx context.Context, in *replicaLink) bool {
	for {
		s.mu.Lock()
		old := s.links[in.owner]
		if old == nil {
			s.links[in.owner] = in
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

// unregister detaches the copies of a link.
func (s *server) unregister(in *replicaLink) {
	s.copies.detachAll(in)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.links, in.owner)
}

// handleFrame handles one frame. A fault of a subnet ends that subnet on the link; an
// error ends the link.
func (s *server) handleFrame(in *replicaLink, d ownerFrame) error {
	if len(d.WitnessSet) > 0 {
		if err := s.copies.handleWitnessSet(in, d.WitnessSet); err != nil {
			return err
		}
	}
	switch {
	case d.Open != nil:
		in.reply(s.copies.handleOpen(in, *d.Open))
	case d.Piece != nil:
		s.copies.applyFrame(in, d.Piece.Subnet.Masked(), func(r *heldCopy) error {
			return s.copies.applyPiece(r, d.Piece)
		})
	case d.Records != nil:
		s.copies.applyFrame(in, d.Records.Subnet.Masked(), func(r *heldCopy) error {
			return s.copies.applyLog(r, d.Records)
		})
	case d.Close != nil:
		return s.copies.handleClose(in, *d.Close)
	}
	return nil
}

// errIdle ends a link without a copy, because the number of links is limited.
var errIdle = errors.New("replica: a link without a copy")

// onFrame records that the owner was heard. It returns false for an idle link.
func (in *replicaLink) onFrame(d ownerFrame) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.heard = time.Now()
	// The owner had these replies when this peer owed nothing, or made progress.
	if at := in.unconfirmed.drop(d.Heard); !at.IsZero() {
		in.confirmed = at
	}
	if in.copies > 0 {
		in.lastUseful = in.heard
	}
	return in.heard.Sub(in.lastUseful) < idleTime
}

// maxUnread is how many replies may wait for the owner to read them.
const maxUnread = 1 << 14

// errUnread ends the link of an owner that does not read its replies.
var errUnread = errors.New("replica: the owner does not read")

// onTaken counts a frame, so that the owner sends another. It returns false if the
// owner does not read.
func (in *replicaLink) onTaken(d ownerFrame) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !d.isHeartbeat() {
		in.taken++
	}
	in.urgent = in.urgent || d.isHeartbeat() || d.Records != nil && d.Records.Urgent
	in.wakeup.Signal()
	return len(in.openReplies) <= maxUnread
}

// sendReplies sends replies: at once that frames were taken, and acknowledgements
// together, after a Sync.
func (s *server) sendReplies(ctx context.Context, in *replicaLink, c *wire.Conn) error {
	idle := time.NewTimer(s.cfg.SyncEvery)
	defer idle.Stop()
	sent := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-in.wakeup:
		case <-idle.C:
			in.mu.Lock()
			// A frame that takes long to apply must not look like silence.
			in.urgent = in.urgent || len(in.unacked) > 0 || time.Since(sent) > s.cfg.Heartbeat
			in.mu.Unlock()
		}
		idle.Reset(s.cfg.SyncEvery)
		for more := true; more; {
			var u replicaFrame
			var send, sync bool
			if u, send, sync, more = in.nextReply(s.cfg.SyncEvery); !send {
				break
			}
			if sync {
				if err := s.cfg.DB.Sync(); err != nil {
					s.cfg.Logger.Error("failed to sync copies", "err", err)
					return err
				}
			}
			in.onReplySent(time.Now())
			if err := c.SendZ(u); err != nil {
				return err
			}
			sent = time.Now()
		}
	}
}

// nextReply returns the next reply, if there is one, and whether a Sync has to come
// first.
func (in *replicaLink) nextReply(
	syncEvery time.Duration,
) (u replicaFrame, send, sync, more bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := min(len(in.openReplies), maxAcks)
	send = in.urgent || in.taken > in.reported || n > 0
	u.Taken, in.reported = in.taken, in.taken
	u.Replies = in.openReplies[:n:n]
	in.openReplies = in.openReplies[n:]
	if !in.urgent && n == 0 && time.Since(in.synced) < syncEvery {
		return u, send, false, false
	}
	sync = n > 0 || len(in.unacked) > 0
	for p, a := range in.unacked {
		if len(u.Acks) == maxAcks {
			break
		}
		u.Acks = append(u.Acks, a)
		delete(in.unacked, p)
	}
	more = len(in.unacked)+len(in.openReplies) > 0
	if !more {
		in.urgent, in.synced = false, time.Now()
	}
	return u, send || len(u.Acks) > 0, sync, more
}

// reply queues a reply to an open request.
func (in *replicaLink) reply(h openReply) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.openReplies = append(in.openReplies, h)
	in.wakeup.Signal()
}

// ack queues an acknowledgement.
func (in *replicaLink) ack(a ack) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.unacked[a.Subnet] = a
}

// dropAck removes what was queued for a subnet.
func (in *replicaLink) dropAck(p netip.Prefix) {
	in.mu.Lock()
	defer in.mu.Unlock()
	delete(in.unacked, p)
}
