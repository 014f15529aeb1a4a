package peers

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// maxChecks is how many peers are checked at a time: as many may die at once,
	// and one that does not answer takes some seconds.
	maxChecks = 8
	// askWhom is how many others are asked whether they reach a peer (k of SWIM,
	// section 4.1), and askMost how many at the most, when those do not answer.
	askWhom = 3
	askMost = 6
	// silentPart is after which part of the time to its expiry a peer's silence is
	// reason for a check, where all are told beacons at once. In larger networks
	// some beacons are long under way, and to check for that would cost more than
	// all the rest; exchanges find out who has stopped, and words tell.
	silentPart = 3
	// checkFirst and checkLast bound the pause before a peer is checked again for
	// which others have vouched; checkAgain is the pause after a check that
	// decided nothing, checkSound the first after one that the peer answered
	// itself: twice as long each time, up to soundLast, for one that answers and
	// hangs up, over and over.
	checkFirst = 5 * time.Second
	checkLast  = 5 * time.Minute
	checkAgain = 5 * time.Second
	checkSound = 2 * time.Second
	soundLast  = 30 * time.Second
	// wordPause is how long nobody's word is a reason to check a peer after the
	// last time it was: words cost nothing.
	wordPause = 20 * time.Second
	// missedFor is how long a peer that did not answer counts as out of reach
	// where it matters how many are.
	missedFor = 30 * time.Second
)

// watch is what checks have shown of one peer. s.mu guards it.
type watch struct {
	doubtAt    time.Time // when it is to be checked; zero: no doubt
	checkAfter time.Time // not before, unless something happens anew
	soundAfter time.Time // not before, whatever happens
	vouched    int       // how many checks in a row others have refuted
	sounds     int       // how many in a row it has answered, none a minute after the other
	checked    time.Time // when the last one ended
	word       time.Time // when somebody's word was reason for one
	checking   bool
	missed     time.Time // when it last did not answer
	probe      *probe    // the last one, or the one under way
}

// Doubt says that p could not be reached: it will be checked soon, unless it was
// just now. If it does not answer, and nobody else who can be asked reaches it,
// it becomes suspect. It returns at once.
func (s *Service) Doubt(p peer.ID) { s.doubt(p, false) }

// doubt is Doubt. Something that has happened anew, like the end of a connection,
// does not wait for the pause after an earlier check.
func (s *Service) doubt(p peer.ID, anew bool) {
	if !s.dir.Alive(p) {
		return // not known, or suspect already
	}
	now := time.Now()
	s.mu.Lock()
	l := s.link(p)
	switch {
	case anew:
		l.doubtAt = later(now, l.soundAfter)
	case l.doubtAt.IsZero() && !l.checking:
		l.doubtAt = later(now, later(l.checkAfter, l.soundAfter))
	}
	s.mu.Unlock()
	s.hurry()
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// hear takes in whom somebody suspects. To say that it still lives, this peer
// makes a beacon.
func (s *Service) hear(doubts []doubt) {
	for _, d := range doubts {
		switch {
		case d.Peer == s.cfg.Host.ID():
			s.mu.Lock()
			s.doubted = true
			s.mu.Unlock()
		case s.dir.news(d) && s.heed(d.Peer):
			s.Doubt(d.Peer)
		}
	}
}

// heed reports whether somebody's word is reason to check p, and counts it.
func (s *Service) heed(p peer.ID) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.link(p)
	if now.Sub(l.word) < wordPause {
		return false
	}
	l.word = now
	return true
}

// suspicious doubts those whose connection is gone and those that have been
// silent for long: of the peers that this one deals with, as the others are none
// of its business until somebody needs them.
func (s *Service) suspicious(c circle, gone []peer.ID, connected map[peer.ID]bool) {
	for _, p := range gone {
		if c.mesh || c.is[p] {
			s.doubt(p, true)
		}
	}
	if c.known >= atOnce {
		return
	}
	for _, b := range s.dir.silent(silentPart) {
		if c.mesh || connected[b.Peer] {
			s.Doubt(b.Peer)
		}
	}
}

// toCheck lists whom to check now.
func (s *Service) toCheck(now time.Time) (picked []peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, l := range s.links {
		if l.doubtAt.IsZero() || l.checking || now.Before(l.doubtAt) {
			continue
		}
		if !s.checks.take() {
			break
		}
		l.checking, l.doubtAt = true, time.Time{}
		picked = append(picked, p)
	}
	return picked
}

// verdict is what a check has shown.
type verdict int

const (
	unsure  verdict = iota // nobody answered: it may be this peer that is cut off
	sound                  // it answered
	vouched                // somebody else reaches it
	gone                   // nobody does
)

// check finds out whether p is there, and notes it.
func (s *Service) check(ctx context.Context, p peer.ID) {
	begin := time.Now()
	v := sound
	if s.dir.Alive(p) && s.probe(ctx, p) != nil {
		v = s.inquire(ctx, p)
	}
	now := time.Now()
	s.mu.Lock()
	l := s.link(p)
	l.checking = false
	switch v {
	case unsure:
		l.doubtAt = now.Add(spread(checkAgain))
	case sound:
		if l.sounds++; now.Sub(l.checked) > time.Minute {
			l.sounds = 0
		}
		l.vouched, l.checkAfter, l.soundAfter = 0, now, now.Add(min(checkSound<<min(l.sounds, 10), soundLast))
	case vouched:
		l.checkAfter = now.Add(spread(min(checkFirst<<min(l.vouched, 10), checkLast)))
		l.soundAfter = now.Add(checkSound)
		l.vouched++
	case gone: // nothing more to find out
	}
	l.checked = now
	s.mu.Unlock()
	if v == gone && ctx.Err() == nil && s.dir.Suspect(p, begin) {
		s.log.Info("a peer is suspect: neither this one nor others reach it", "peer", p)
	}
}

// inquire asks others for p, which this peer does not reach.
func (s *Service) inquire(ctx context.Context, p peer.ID) verdict {
	helpers, others := s.helpers(p)
	need := 1
	if s.cutOff() {
		// If the fault is here, and with a few neighbours, one of those who says
		// the same proves nothing.
		need = 2
	}
	if others == 0 && need == 1 && !s.deserted() {
		return gone // a network of two: whichever of them is cut off, it is alone
	}
	answered := 0
	helpers = helpers[:min(len(helpers), askMost)]
	for len(helpers) > 0 && answered < need {
		batch := helpers[:min(len(helpers), askWhom)]
		helpers = helpers[len(batch):]
		n, reached := s.askAll(ctx, batch, p)
		if reached {
			return vouched
		}
		answered += n
	}
	if ctx.Err() != nil || answered < need {
		return unsure
	}
	return gone
}

// deserted reports whether others, out of reach to the end, have expired lately: the
// last of many that this peer does not reach is not the other one of two.
func (s *Service) deserted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.expired) < missedFor
}

// helpers lists who can be asked for p, connected ones that have not failed
// themselves, in an order that is the same everywhere: so those who ask at once
// ask the same ones, who try only once for all of them. others is how many more
// peers than p are present.
func (s *Service) helpers(p peer.ID) (helpers []peer.ID, others int) {
	now := time.Now()
	for _, b := range s.dir.All() {
		if b.Peer == p {
			continue
		}
		others++
		s.mu.Lock()
		l := s.links[b.Peer]
		failing := l != nil && now.Sub(l.missed) < missedFor && !s.heardSince(b.Peer, l.missed)
		s.mu.Unlock()
		if !failing && len(s.cfg.Host.Network().ConnsToPeer(b.Peer)) > 0 {
			helpers = append(helpers, b.Peer)
		}
	}
	rank := func(q peer.ID) uint64 {
		h := fnv.New64a()
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte(q))
		x := h.Sum64() // FNV's last bytes hardly reach the upper bits
		x = (x ^ x>>33) * 0xff51afd7ed558ccd
		return x ^ x>>33
	}
	slices.SortFunc(helpers, func(a, b peer.ID) int {
		if rank(a) < rank(b) {
			return -1
		}
		return 1
	})
	return helpers, others
}

func (s *Service) heardSince(p peer.ID, at time.Time) bool {
	heard, ok := s.dir.Heard(p)
	return ok && heard.After(at)
}

// cutOff reports whether so many peers are out of reach that this peer must
// doubt itself: more than one, and more than half.
func (s *Service) cutOff() bool {
	now := time.Now()
	all := s.dir.known()
	missed := 0
	s.mu.Lock()
	for _, b := range all {
		l := s.links[b.Peer]
		if l != nil && now.Sub(l.missed) < missedFor && !s.heardSince(b.Peer, l.missed) || s.dir.Suspected(b.Peer) {
			missed++
		}
	}
	s.mu.Unlock()
	return missed > 1 && 2*missed > len(all)
}
