package witness

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// forgetful is a disk that loses votes.
type forgetful struct{ Store }

func (f forgetful) Each(fn func(string, []byte) error) error {
	return f.Store.Each(func(key string, val []byte) error {
		if strings.HasPrefix(key, ballotPath) {
			return nil
		}
		return fn(key, val)
	})
}

// plain is a schedule of exact clocks on a network that loses nothing.
func plain(peers int, events ...event) schedule {
	s := schedule{Seed: 1, Peers: peers, Members: 4, Quiet: true, Events: events}
	for range peers {
		s.Rates, s.Offsets = append(s.Rates, 1), append(s.Offsets, 0)
	}
	return s
}

func at(seconds float64, kind string, a, b int) event {
	return event{time.Duration(seconds * float64(time.Second)), kind, a, b}
}

// Each part of the protocol is there for a reason: without it two may act at once
// in a schedule that is harmless with it.
func TestEachPartIsNeeded(t *testing.T) {
	far := plain(5, at(61.5, "pause", 0, 0), at(62, "split", 0, 1), at(62, "split", 0, 2), at(62, "split", 0, 3), at(62, "split", 0, 4),
		at(84, "resume", 0, 0), at(86.5, "ask", 1, 0))
	far.Far = 4 * time.Second
	for name, c := range map[string]struct {
		schedule schedule
		bad      sabotage
	}{
		"Hold counts from when the question was sent": {far, sabotage{after: func(n *node, p peer.ID, r reply) {
			s := n.service()
			if s == nil || r.Ack == nil {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if m := s.holder.members[p]; m != nil {
				m.sent = n.clock()
			}
		}}},
		"votes are on the disk": {plain(5, at(60, "kill", 0, 0), at(85, "ask", 1, 0),
			at(87, "kill", 2, 0), at(87, "kill", 3, 0), at(87, "kill", 4, 0),
			at(88, "start", 2, 0), at(88, "start", 3, 0), at(88, "start", 4, 0), at(109, "ask", 2, 0)),
			sabotage{forget: true}},
		"a witness that restarted waits": {plain(5, at(60, "alone", 0, 0),
			at(60.1, "kill", 2, 0), at(60.1, "kill", 3, 0), at(60.1, "kill", 4, 0),
			at(61, "start", 2, 0), at(61, "start", 3, 0), at(61, "start", 4, 0),
			at(62, "heal", 0, 0), at(62, "alone", 0, 0), at(63, "ask", 2, 0)),
			sabotage{born: func(n *node) {
				s := n.service()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.guard.wait = time.Time{}
			}}},
		"panels change jointly": {plain(7, at(0, "hide", 5, 0), at(0, "hide", 6, 0), at(60, "show", 5, 0), at(60, "show", 6, 0),
			at(60, "split", 0, 3), at(60, "split", 0, 4), at(84, "split", 0, 1), at(84, "split", 0, 2), at(107, "ask", 3, 0)),
			sabotage{before: func(n *node) {
				s := n.service()
				if s == nil {
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if k := len(s.holder.panels); k > 1 {
					s.holder.panels = s.holder.panels[k-1:]
				}
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if w := c.schedule.run(t, sabotage{}); len(w.faults) > 0 || w.held < 50*time.Second {
					t.Errorf("with it: the owner held its right for %v, %v", w.held, w.faults)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				if w := c.schedule.run(t, c.bad); len(w.faults) == 0 {
					t.Errorf("without it nothing is noticed; %d had the votes", len(w.wins))
				} else {
					t.Logf("without it: %s", w.faults[0])
				}
			})
		})
	}
}
