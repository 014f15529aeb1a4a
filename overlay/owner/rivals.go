package owner

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/overlay/homing"
	"peerd/overlay/lease"
)

// A lease that came to this peer while others were out of reach may have a rival
// at theirs: of the same claim, or of the same step from one epoch to the next. So
// it is read again some times after it came, and after every time that somebody is
// back; the tie-break then says who yields.
//
//	claimed, adopted, taken over ---------------+
//	a peer is heard that was silent  --- those  +--> armed --4 s--> read --30 s--> read
//	the right was lost and is back       since -+      ^   --90 s--> read --5 min--> read
//	                                                   '----- armed again ------'
//
// After an absence only what came to us shortly before it or during it is read: what
// both sides agreed upon can only change by a takeover, of which witnesses tell.

// readAfter is when a lease is read again: once for rivals of the same moment, and
// often enough afterwards for a DHT whose parts have to find each other first.
var readAfter = [...]time.Duration{4 * time.Second, 30 * time.Second, 90 * time.Second, 5 * time.Minute}

const (
	// renewedAt is which of these is a renewal, if somebody is back.
	renewedAt = 1
	// readsAtOnce bounds the leases read again at a time, and readsPerTick those
	// of one Config.Tick: 50 a second.
	readsAtOnce  = 8
	readsPerTick = 25
	readTimeout  = 20 * time.Second
	// rearmAfter is how long what was armed is left as it is: peers come back
	// one after another.
	rearmAfter = 15 * time.Second
	// awayFor is how long nobody must have heard of a peer for it to be one that
	// was away, and awayEach what is added for each peer that is known: the more
	// there are, the seldomer each speaks.
	awayFor  = 30 * time.Second
	awayEach = 1200 * time.Millisecond
	// beforehand is how long before an absence a lease must have come to be known
	// at both sides.
	beforehand = time.Minute
	// A peer that was never heard before may come from a network that was apart: what
	// came within apart is read then. That is done each newcomerSoon in the first
	// hour of this peer, which may have been started while it was cut off, and
	// each newcomerLate afterwards.
	apart        = homing.Kept
	newcomerSoon = 2 * time.Minute
	newcomerLate = 30 * time.Minute
	// longAway is how often all leases are read because somebody is back after
	// so long that subnets may have been taken over without votes.
	longAway = time.Hour
	// maxMet bounds the peers that are remembered.
	maxMet = 4096
)

// presence is what is remembered of who was there. Of Run alone.
type presence struct {
	heard    map[string]time.Time // when each peer was last heard
	lostAt   time.Time            // since when there is no right; zero: there is
	newcomer time.Time            // when leases were last read because of one
	all      time.Time            // when all were
}

// arm has the lease of a subnet read again; back says that it is because somebody
// may have come from where there is another. The Manager's mutex is held.
func (s *subnet) arm(now time.Time, back bool) {
	s.armed, s.reads, s.back = now, 0, back
	s.readAt = now.Add(spread(readAfter[0]))
}

// spread is d, or up to a quarter more.
func spread(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// armSince arms what came to this peer since then.
func (m *Manager) armSince(since, now time.Time, why string) {
	m.homes.Reread(since, now)
	n := 0
	m.mu.Lock()
	for _, s := range m.subnets {
		if !s.since.Before(since) && now.Sub(s.armed) > rearmAfter {
			s.arm(now, true)
			n++
		}
	}
	m.mu.Unlock()
	if n > 0 {
		m.log.Info("leases are read again", "why", why, "subnets", n)
	}
}

// meet looks who is back.
func (m *Manager) meet(now time.Time) {
	if m.cfg.Heard == nil || m.turn%slowly != 0 {
		return
	}
	p := &m.present
	switch right := m.Right(); {
	case !right && p.lostAt.IsZero():
		p.lostAt = now
	case right && !p.lostAt.IsZero():
		m.armSince(p.lostAt.Add(-beforehand), now, "the right is back")
		p.lostAt = time.Time{}
	}
	all := m.cfg.Directory.Candidates()
	away := awayFor + time.Duration(len(all))*awayEach
	for _, c := range all {
		id, err := peer.Decode(c.ID)
		if err != nil {
			continue
		}
		heard := m.cfg.Heard(id)
		last, known := p.heard[c.ID]
		switch {
		case heard.IsZero() || known && !heard.After(last):
			continue
		case !known:
			m.newcomer(now, away)
		case heard.Sub(last) > away:
			m.returned(last, heard, now)
		}
		p.heard[c.ID] = heard
	}
	for id, at := range p.heard {
		if len(p.heard) <= maxMet {
			break
		}
		if now.Sub(at) > away {
			delete(p.heard, id)
		}
	}
}

// returned takes in that a peer is heard now that was not since last.
func (m *Manager) returned(last, heard, now time.Time) {
	since := last.Add(-beforehand)
	if heard.Sub(last) > lease.LongSilence && now.Sub(m.present.all) > longAway {
		m.present.all, since = now, time.Time{}
	}
	m.armSince(since, now, "a peer is back")
}

// newcomer takes in that a peer is there that was not heard before.
func (m *Manager) newcomer(now time.Time, away time.Duration) {
	every := newcomerLate
	if now.Sub(m.started) < apart {
		every = newcomerSoon
	}
	if now.Sub(m.started) < away || now.Sub(m.present.newcomer) < every {
		return
	}
	m.present.newcomer = now
	m.armSince(now.Add(-apart), now, "a new peer")
}

// Rumour takes in a lease that others talk of. One that beats ours has ours renewed at
// once, which shows whether it stands.
func (m *Manager) Rumour(l lease.Lease) {
	m.mu.Lock()
	s := m.subnets[l.Subnet]
	rival := s != nil && l.Owner != m.cfg.Self && !s.leaving() && m.beats(l, s.lease)
	m.mu.Unlock()
	if rival {
		m.suspect(s, time.Now())
		m.wake()
	}
}

// toRead returns what reads the leases that are due, the youngest first.
func (m *Manager) toRead(now time.Time) []func(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reading {
		return nil
	}
	var due []*subnet
	for _, s := range m.subnets {
		if !s.readAt.IsZero() && !s.readAt.After(now) {
			due = append(due, s)
		}
	}
	if len(due) == 0 {
		return nil
	}
	slices.SortFunc(due, func(a, b *subnet) int {
		return cmp.Or(b.since.Compare(a.since), a.prefix.Addr().Compare(b.prefix.Addr()))
	})
	due = due[:min(len(due), readsPerTick)]
	for _, s := range due {
		s.readAt = time.Time{}
		// A read ends with the first few answers, which may all be of one side;
		// a renewal goes to all who keep the lease.
		if s.back && s.reads == renewedAt && s.renewAt.After(now) {
			s.renewAt = now
		}
		if s.reads++; s.reads < len(readAfter) {
			s.readAt = s.armed.Add(spread(readAfter[s.reads]))
		}
	}
	m.reading = true
	return []func(context.Context){func(ctx context.Context) {
		var g errgroup.Group
		g.SetLimit(readsAtOnce)
		for _, s := range due {
			g.Go(func() error { m.reread(ctx, s.prefix); return nil })
		}
		_ = g.Wait() // there are none
		m.mu.Lock()
		m.reading = false
		m.mu.Unlock()
	}}
}

// reread reads the lease of a subnet of ours, which is given up if there is a
// better one.
func (m *Manager) reread(ctx context.Context, p netip.Prefix) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	l, _, err := m.cfg.Leases.Refresh(ctx, p)
	switch {
	case err == nil:
		m.beaten(l)
	case !errors.Is(err, lease.ErrUnowned) && ctx.Err() == nil:
		m.log.Debug("a lease was not read again", "subnet", p, "err", err)
	}
}
