package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/backoff"
	"peerd/internal/order"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
)

const (
	// MaxCopies bounds the copies that a peer keeps.
	MaxCopies = 64
	// absentAfter is how long a peer that no other peer reaches is silent before it is absent,
	// and unknownAfter how long this peer runs before one that it has never heard is.
	absentAfter, unknownAfter = 30 * time.Second, 2 * time.Minute
	// lostFor is how long after its last conversation a peer that seems alive may be absent.
	lostFor = 5 * time.Minute
	// A copy is deleted after a time without a conversation with its owner: one that is empty
	// after emptyAfter; one that was never whole, or of an owner that is alive, after dropAfter;
	// any other after MaxAge. So peers that come and go cannot take all MaxCopies places for long.
	emptyAfter, dropAfter = 10 * time.Minute, 24 * time.Hour
	// sweepEvery is how often that is looked at.
	sweepEvery = 10 * time.Minute
)

// requestRate limits the conversations that each peer opens.
var requestRate = wire.Rate{PerSecond: 1, Burst: 8, TotalFactor: 16}

// Lives says which peers are alive. *peers.Directory implements it.
type Lives interface {
	Liveness(peer.ID) peers.Liveness
}

// Space says whether the disk has enough free space.
type Space interface {
	CheckSpace() error
}

// Keeper keeps copies of the archives of other peers. Its fields are set before Serve.
type Keeper struct {
	Host     host.Host
	Protocol protocol.ID
	Network  string
	// Dir has a folder for each copy.
	Dir string
	// Bytes bounds the size of all copies together; one may have half of it. 0: none are kept.
	Bytes  int64
	Space  Space
	Lives  Lives
	Logger *slog.Logger

	started time.Time
	limiter wire.Limiter

	mu       sync.Mutex
	copies   map[peer.ID]*Copy
	deleting map[peer.ID]bool // owners of copies of which the folders are being deleted
}

// Open reads the copies in Dir, and goes on with deletions that were interrupted. It is called
// before the other methods.
func (k *Keeper) Open() error {
	k.started, k.copies, k.deleting = time.Now(), map[peer.ID]*Copy{}, map[peer.ID]bool{}
	all, err := os.ReadDir(k.Dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("mirror: %w", err)
	}
	for _, d := range all {
		dir := filepath.Join(k.Dir, d.Name())
		c, err := openCopy(dir, d.Name())
		if errors.Is(err, errDeleted) {
			if err = os.RemoveAll(dir); err == nil {
				continue
			}
		}
		if err != nil {
			k.Logger.Warn("ignored a copy of an archive that cannot be read", "name", d.Name(),
				"err", err)
			continue
		}
		k.copies[c.Owner] = c
	}
	return nil
}

// Serve accepts copies until the returned wire.Server is closed.
func (k *Keeper) Serve() *wire.Server {
	return wire.Serve(k.Host, k.Protocol, wire.Limits{MaxMsg: maxPiece, Timeout: messageTime},
		k.Logger, k.handle)
}

// Run deletes copies that are of no use any more, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for backoff.Sleep(ctx, sweepEvery) == nil {
		k.sweep(time.Now())
	}
	return nil
}

// Absent returns the copies of peers that do not answer, sorted by owner.
func (k *Keeper) Absent() (all []*Copy) {
	now := time.Now()
	for _, c := range k.All() {
		if c.idle() && k.absent(c.Owner, now) {
			all = append(all, c)
		}
	}
	return all
}

// Lost returns the copies of peers that may be absent, sorted by owner: those that are not alive,
// or were in a conversation until not long ago.
func (k *Keeper) Lost() (all []*Copy) {
	now := time.Now()
	for _, c := range k.All() {
		if c.idle() && (k.Lives.Liveness(c.Owner).State != peers.Alive ||
			now.Sub(c.spoke()) < lostFor) {
			all = append(all, c)
		}
	}
	return all
}

// All returns the copies, sorted by owner.
func (k *Keeper) All() (all []*Copy) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.copies {
		all = append(all, c)
	}
	order.SortFunc(all, func(a, b *Copy) int { return cmp.Compare(a.Owner, b.Owner) })
	return all
}

// absent reports whether a peer does not answer.
func (k *Keeper) absent(p peer.ID, now time.Time) bool {
	switch l := k.Lives.Liveness(p); l.State {
	case peers.Dead:
		return true
	case peers.Suspect:
		return now.Sub(l.Heard) > absentAfter
	case peers.Unknown:
		return now.Sub(k.started) > unknownAfter
	case peers.Alive:
	}
	return false
}

// sweep deletes the copies that their owners do not name any more, or never filled.
func (k *Keeper) sweep(now time.Time) {
	for _, c := range k.All() {
		left := k.Lives.Liveness(c.Owner).State == peers.Alive &&
			now.Sub(k.started) > dropAfter
		k.mu.Lock()
		silence, limit := now.Sub(c.spoke()), MaxAge
		switch {
		case c.Bytes() == 0:
			limit = emptyAfter
		case left || !c.wasWhole():
			limit = dropAfter
		}
		useless := c.idle() && silence > limit
		if useless {
			delete(k.copies, c.Owner)
			k.deleting[c.Owner] = true
		}
		k.mu.Unlock()
		if !useless {
			continue
		}
		err := c.remove()
		k.mu.Lock()
		delete(k.deleting, c.Owner)
		k.mu.Unlock()
		if err != nil {
			k.Logger.Warn("failed to delete the copy of an archive", "peer", c.Owner, "err", err)
			continue
		}
		k.Logger.Info("deleted the copy of an archive", "peer", c.Owner, "silent", silence)
	}
}

// room returns an error if n more bytes of an owner must not be stored.
func (k *Keeper) room(c *Copy, n int64) error {
	var used, its int64
	for _, other := range k.All() {
		size := other.Bytes()
		used += size
		if other == c {
			its = size
		}
	}
	if used+n > k.Bytes || its+n > k.Bytes/2 {
		return fmt.Errorf("no room for %d bytes: copies have %d of %d, this one %d", n, used,
			k.Bytes, its)
	}
	return k.Space.CheckSpace()
}

// handle stores what an owner sends.
func (k *Keeper) handle(ctx context.Context, c *wire.Conn) error {
	var o offer
	if err := c.Recv(&o); err != nil {
		return err
	}
	if !k.limiter.Allow(requestRate, c.Peer(), time.Now()) {
		return errors.New("too many conversations")
	}
	n, err := OpenNaming(o.Naming, k.Network, time.Now())
	if err != nil {
		return err
	}
	if n.Owner != c.Peer() || n.Mirror != k.Host.ID() || o.Bytes < 0 {
		return fmt.Errorf("%w: %s named %s", ErrMessage, n.Owner, n.Mirror)
	}
	cp, err := k.take(n.Owner, o.Bytes)
	if err != nil {
		return c.Send(held{Refused: err.Error()})
	}
	ctx, leave, err := cp.enter(ctx, o.Naming)
	if err != nil {
		return err
	}
	defer leave()
	defer context.AfterFunc(ctx, c.Reset)()
	return k.receive(c, cp)
}

var errNoMoreCopies = errors.New("no more copies are kept now")

// take returns the copy for an archive of some size, and creates it if there is none.
func (k *Keeper) take(owner peer.ID, size int64) (*Copy, error) {
	k.mu.Lock()
	c, known := k.copies[owner]
	k.mu.Unlock()
	if k.Bytes == 0 { // the owner leaves, and sweep deletes what there is
		return nil, errNoMoreCopies
	}
	if !known {
		if err := k.room(nil, size); err != nil {
			return nil, err
		}
		if size > k.Bytes/2 {
			return nil, fmt.Errorf("an archive of %d bytes is too large", size)
		}
		c = newCopy(filepath.Join(k.Dir, owner.String()), owner)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch other, ok := k.copies[owner]; {
	case ok:
		c = other
	case known, k.deleting[owner], len(k.copies) >= MaxCopies: // known: it was just deleted
		return nil, errNoMoreCopies
	}
	k.copies[owner] = c
	c.touch() // sweep keeps it
	return c, nil
}

// receive says what a copy has, and stores pieces until the conversation fails.
func (k *Keeper) receive(c *wire.Conn, cp *Copy) error {
	parts, err := cp.parts()
	if err != nil {
		k.Logger.Warn("failed to read the copy of an archive", "peer", c.Peer(), "err", err)
		return c.Send(held{Refused: "the copy cannot be read"}) // an error would reset the stream
	}
	if err := c.Send(held{Files: parts}); err != nil {
		return err
	}
	for {
		var p piece
		if err := c.Recv(&p); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
		err := k.room(cp, int64(len(p.Data)))
		if len(p.Data) == 0 {
			err = nil
		}
		if err == nil {
			err = cp.store(&p)
		}
		if err != nil {
			k.Logger.Warn("refused a part of an archive", "peer", c.Peer(), "err", err)
			if err := cp.behind(maxBehind + 1); err != nil { // the owner sends no more
				k.Logger.Warn("failed to note that a copy is not whole", "peer", c.Peer(),
					"err", err)
			}
			return c.Send(ack{Refused: err.Error()})
		}
		if err := c.Send(ack{}); err != nil {
			return err
		}
	}
}
