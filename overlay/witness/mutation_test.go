package witness

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// lossyStore is a Store that loses votes.
type lossyStore struct{ Store }

func (f lossyStore) Each(fn func(string, []byte) error) error {
	return f.Store.Each(func(key string, val []byte) error {
		if strings.HasPrefix(key, votePrefix) {
			return nil
		}
		return fn(key, val)
	})
}

// exactSchedule returns a schedule with exact clocks and a reliable network.
func exactSchedule(peers int, events ...event) schedule {
	s := schedule{Seed: 1, Peers: peers, Members: 4, EventsOnly: true, Events: events}
	for range peers {
		s.Rates, s.Offsets = append(s.Rates, 1), append(s.Offsets, 0)
	}
	return s
}

func at(seconds float64, kind string, a, b int) event {
	return event{time.Duration(seconds * float64(time.Second)), kind, a, b}
}

// Each rule of the protocol is necessary: without it two peers may act at once in a
// schedule that is safe with it.
func TestEachRuleIsNecessary(t *testing.T) {
	t.Parallel()
	far := exactSchedule(5, at(61.5, "pause", 0, 0), at(62, "split", 0, 1), at(62, "split", 0, 2),
		at(62, "split", 0, 3), at(62, "split", 0, 4),
		at(84, "resume", 0, 0), at(86.5, "ask", 1, 0))
	far.FarDelay = 4 * time.Second
	for name, c := range map[string]struct {
		schedule schedule
		bad      mutation
	}{
		"Hold counts from when the heartbeat was sent": {far,
			mutation{after: func(n *node, p peer.ID, r reply) {
				s := n.service()
				if s == nil || r.Ack == nil {
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if m := s.owner.members[p]; m != nil {
					m.sent = n.clock()
				}
			}}},
		"votes are on disk": {exactSchedule(5, at(60, "kill", 0, 0), at(85, "ask", 1, 0),
			at(87, "kill", 2, 0), at(87, "kill", 3, 0), at(87, "kill", 4, 0),
			at(88, "start", 2, 0), at(88, "start", 3, 0), at(88, "start", 4, 0),
			at(109, "ask", 2, 0)),
			mutation{loseVotes: true}},
		"a restarted witness waits": {exactSchedule(5, at(60, "alone", 0, 0),
			at(60.1, "kill", 2, 0), at(60.1, "kill", 3, 0), at(60.1, "kill", 4, 0),
			at(61, "start", 2, 0), at(61, "start", 3, 0), at(61, "start", 4, 0),
			at(62, "heal", 0, 0), at(62, "alone", 0, 0), at(63, "ask", 2, 0)),
			mutation{started: func(n *node) {
				s := n.service()
				s.mu.Lock()
				defer s.mu.Unlock()
				s.witness.votesFrom = time.Time{}
			}}},
		"witness sets overlap": {exactSchedule(7, at(0, "hide", 5, 0), at(0, "hide", 6, 0),
			at(60, "show", 5, 0), at(60, "show", 6, 0),
			at(60, "split", 0, 3), at(60, "split", 0, 4), at(84, "split", 0, 1),
			at(84, "split", 0, 2), at(107, "ask", 3, 0)),
			mutation{before: func(n *node) {
				s := n.service()
				if s == nil {
					return
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if k := len(s.owner.sets); k > 1 {
					s.owner.sets = s.owner.sets[k-1:]
				}
			}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if w := c.schedule.run(t, mutation{}); len(w.faults) > 0 ||
					w.held < 50*time.Second {
					t.Errorf("with the rule: the lease held for %v, faults %v; want 50s, none",
						w.held, w.faults)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				if w := c.schedule.run(t, c.bad); len(w.faults) == 0 {
					t.Errorf("without the rule: no fault, %d had the votes; want a fault",
						len(w.wins))
				} else {
					t.Logf("without the rule: %s", w.faults[0])
				}
			})
		})
	}
}
