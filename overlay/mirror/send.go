package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
	"peerd/store/warc"
)

const (
	// messageTime bounds the time for each message.
	messageTime = 30 * time.Second
	// aliveEvery is how often the owner says that it lives while there is nothing to send.
	aliveEvery = 10 * time.Second
	// maxTalk bounds a conversation: the next one has a new naming.
	maxTalk = 24 * time.Hour
	// pollEvery is how often the archive is looked at.
	pollEvery = time.Second
	// maxRetry is the longest wait after a failure, in multiples of Sender.Retry.
	maxRetry = 64
)

// Choice stores which peers were chosen as mirrors.
type Choice interface {
	Load() ([]peer.ID, error)
	Save([]peer.ID) error
}

// Sender sends the archive of this peer to its mirrors. Its fields are set before Run.
type Sender struct {
	Host     host.Host
	Protocol protocol.ID
	Network  string
	Key      crypto.PrivKey
	Archive  *warc.Archive
	// Peers returns the other peers.
	Peers wire.Peers
	// Mirrors is how many peers shall keep a copy.
	Mirrors int
	// Upload bounds the bytes per second to all mirrors together.
	Upload int64
	Choice Choice
	// Look is how often the mirrors are chosen. The first choice is made after Settle, when
	// other peers are known. Retry is the first wait after a conversation has failed. A mirror
	// that refuses, or is not reached for Patience, is replaced, and not chosen for Patience.
	Look, Settle, Retry, Patience time.Duration
	Logger                        *slog.Logger

	budget *rate.Limiter
	mu     sync.Mutex
	links  map[peer.ID]*link
}

// link is what a Sender knows of a mirror, or of a peer that was one.
type link struct {
	cancel context.CancelFunc // ends the conversations; nil: there are none
	heard  time.Time          // when it answered last, or was chosen
	left   time.Time          // when it refused last, or was replaced; zero: never
	behind int64              // bytes of the archive that it lacks
	linked bool               // a conversation runs
}

// State returns how many mirrors follow the archive now, and how many bytes the one lacks that has
// most of it.
func (s *Sender) State() (mirrors int, behind int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.links {
		if l.linked && (mirrors == 0 || l.behind < behind) {
			behind = l.behind
		}
		if l.linked {
			mirrors++
		}
	}
	return mirrors, behind
}

// Run sends until ctx ends.
func (s *Sender) Run(ctx context.Context) error {
	s.budget = rate.NewLimiter(rate.Limit(s.Upload), maxPiece)
	s.mu.Lock()
	s.links = map[peer.ID]*link{}
	s.mu.Unlock()
	now, err := s.Choice.Load()
	if err != nil {
		return fmt.Errorf("mirror: %w", err)
	}
	if len(now) == 0 && backoff.Sleep(ctx, s.Settle) != nil {
		return nil
	}
	var g sync.WaitGroup
	defer g.Wait()
	for {
		if now, err = s.look(ctx, &g, now); err != nil {
			s.Logger.Warn("failed to store the choice of mirrors", "err", err)
		}
		if backoff.Sleep(ctx, s.Look) != nil {
			return nil
		}
	}
}

// look chooses the mirrors, begins conversations with new ones and ends those with others.
func (s *Sender) look(
	ctx context.Context, g *sync.WaitGroup, now []peer.ID,
) (chosen []peer.ID, err error) {
	var known []peer.ID
	for _, p := range s.Peers.Infos() {
		known = append(known, p.ID)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	chosen = choose(s.Host.ID(), s.Mirrors, now, known, s.fitness)
	for _, p := range chosen {
		l := s.links[p]
		if l == nil || !slices.Contains(now, p) {
			l = &link{heard: time.Now()}
			s.links[p] = l
		}
		if l.cancel == nil {
			var linkCtx context.Context
			linkCtx, l.cancel = context.WithCancel(ctx)
			g.Go(func() { s.send(linkCtx, p, l) })
		}
	}
	for p, l := range s.links {
		switch {
		case slices.Contains(chosen, p):
		case l.cancel != nil:
			l.left = time.Now()
			l.cancel()
		case time.Since(l.left) > s.Patience:
			delete(s.links, p)
		}
	}
	if slices.Equal(chosen, now) {
		return chosen, nil
	}
	return chosen, s.Choice.Save(chosen)
}

// fitness returns whether a peer can be a mirror. s.mu is held.
func (s *Sender) fitness(p peer.ID) fitness {
	switch l := s.links[p]; {
	case l == nil:
		return fit
	case time.Since(l.left) < s.Patience:
		return refuses
	case l.cancel != nil && time.Since(l.heard) > s.Patience:
		return silent
	}
	return fit
}

// info returns a peer if it is known at present.
func (s *Sender) info(id peer.ID) (peer.AddrInfo, error) {
	for _, p := range s.Peers.Infos() {
		if p.ID == id {
			return p, nil
		}
	}
	return peer.AddrInfo{}, errors.New("the peer is not known")
}

// send sends the archive to a mirror until ctx ends or the mirror refuses.
func (s *Sender) send(ctx context.Context, id peer.ID, l *link) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.cancel()
		l.cancel, l.linked = nil, false
	}()
	for failed := 0; ; failed++ {
		began := time.Now()
		p, err := s.info(id)
		if err == nil {
			err = s.converse(ctx, p, l)
		}
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		l.linked = false
		if l.heard.After(began) {
			failed = 0
		}
		if errors.Is(err, errRefused) {
			l.left = time.Now()
		}
		s.mu.Unlock()
		if errors.Is(err, errRefused) {
			s.Logger.Info("left a mirror that refused", "peer", id, "err", err)
			return
		}
		wait := backoff.Jitter(backoff.Double(s.Retry, maxRetry*s.Retry, failed))
		s.Logger.Debug("lost a mirror", "peer", id, "retry_in", wait, "err", err)
		if backoff.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// heard records that a mirror has answered, and lacks some bytes.
func (s *Sender) heard(l *link, behind int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.heard, l.behind, l.linked = time.Now(), behind, true
}

// converse sends to a mirror what it lacks, until the conversation fails or is long enough.
func (s *Sender) converse(ctx context.Context, p peer.AddrInfo, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, maxTalk)
	defer cancel()
	dial, stop := context.WithTimeout(ctx, messageTime)
	err := s.Host.Connect(dial, p)
	stop()
	if err != nil {
		return err
	}
	c, err := wire.Dial(ctx, s.Host, p.ID, wire.Limits{MaxMsg: maxHeld, Timeout: messageTime},
		s.Protocol)
	if err != nil {
		return err
	}
	defer c.Reset()
	end, err := s.Archive.Position(ctx)
	if err != nil {
		return err
	}
	naming, err := SealNaming(Naming{Mirror: p.ID, At: time.Now()}, s.Network, s.Key)
	if err != nil {
		return err
	}
	var has held
	if err := errors.Join(c.Send(offer{naming, sum(end)}), c.Recv(&has)); err != nil {
		return err
	}
	if has.Refused != "" {
		return fmt.Errorf("%w: %.*q", errRefused, maxReason, has.Refused)
	}
	if err := has.check(); err != nil {
		return err
	}
	t := &talk{s: s, conn: c, link: l, at: map[string]int64{}}
	for name, part := range has.Files {
		t.at[name] = s.agreed(name, part, end)
	}
	s.heard(l, sum(end)-sum(t.at))
	return t.run(ctx)
}

// gone is the position in a copied file that is not in the archive.
const gone = -1

// agreed returns up to where a copied file is the same as here.
func (s *Sender) agreed(name string, has warc.Part, end map[string]int64) int64 {
	last, ok := end[name]
	if !ok {
		return gone
	}
	if has.Size > last {
		return 0
	}
	mine, err := s.Archive.Part(name, has.Size)
	if err != nil || !bytes.Equal(mine.Sum, has.Sum) {
		return 0
	}
	return has.Size
}

func sum(at map[string]int64) (n int64) {
	for _, end := range at {
		n += max(end, 0)
	}
	return n
}

// talk is a conversation with a mirror.
type talk struct {
	s    *Sender
	conn *wire.Conn
	link *link
	at   map[string]int64 // up to where each file is copied, or gone
	told bool             // that the mirror has everything
}

// run sends pieces until the conversation fails or ctx ends.
func (t *talk) run(ctx context.Context) error {
	for {
		seen := t.s.Archive.Stats()
		end, err := t.s.Archive.Position(ctx)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(t.at)) {
			if t.at[name] == gone {
				if err := t.give(ctx, piece{File: name, Gone: true}); err != nil {
					return err
				}
				delete(t.at, name)
			}
		}
		before := sum(t.at)
		for _, name := range slices.Sorted(maps.Keys(end)) {
			if err := t.sendFile(ctx, name, end); err != nil {
				return err
			}
		}
		if sum(t.at) == before {
			if err := t.give(ctx, piece{}); err != nil {
				return err
			}
		}
		if !t.told {
			t.told = true
			t.s.Logger.Info("copied the archive to a mirror", "peer", t.conn.Peer(),
				"bytes", sum(t.at))
		}
		for began := time.Now(); t.s.Archive.Stats().Exchanges == seen.Exchanges &&
			time.Since(began) < aliveEvery; {
			if err := backoff.Sleep(ctx, pollEvery); err != nil {
				return err
			}
		}
	}
}

// sendFile sends what the mirror lacks of a file. A piece is what may be sent in a second, so that
// no mirror waits for messageTime.
func (t *talk) sendFile(ctx context.Context, name string, end map[string]int64) error {
	for t.at[name] < end[name] {
		from := t.at[name]
		to := min(from+min(pieceSize, t.s.Upload), end[name])
		data, err := t.s.Archive.ReadPart(name, from, to)
		if err != nil {
			return err
		}
		t.at[name] = to
		if err := t.give(ctx, piece{File: name, At: from, Data: data, Whole: to == end[name],
			Behind: max(0, sum(end)-sum(t.at))}); err != nil {
			return err
		}
	}
	return nil
}

// give sends a piece and waits until the mirror has stored it.
func (t *talk) give(ctx context.Context, p piece) error {
	if err := t.s.budget.WaitN(ctx, len(p.Data)); err != nil {
		return err
	}
	var a ack
	if err := errors.Join(t.conn.Send(p), t.conn.Recv(&a)); err != nil {
		return err
	}
	if a.Refused != "" {
		return fmt.Errorf("%w: %.*q", errRefused, maxReason, a.Refused)
	}
	t.s.heard(t.link, p.Behind)
	return nil
}
