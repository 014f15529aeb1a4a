package sim

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"peerd/node/admin"
)

// history records the events that the simulation observed. The sites record requests
// in their own log. mu guards the fields that other goroutines write.
type history struct {
	mu        sync.Mutex
	events    []Event
	ended     []string                        // processes that ended unexpectedly
	held      map[string]map[int]admin.Subnet // by subnet and peer
	decreased []string                        // epochs that decreased
	highest   map[string]uint64               // highest epoch seen, by subnet
	terms     map[string][]*term              // by subnet, in the order of their starts
	requests  []request                       // by time
	counted   []Nearness
	// what peers logged about the owners of subnets, by time
	ownerships []ownership
}

// Event is one line of the history.
type Event struct {
	At   time.Duration // since the start of the simulation
	Peer int           // -1: of no single peer
	Text string
}

func (e Event) String() string {
	who := "       "
	if e.Peer >= 0 {
		who = fmt.Sprintf("peer %-2d", e.Peer)
	}
	return fmt.Sprintf("%8.3fs %s %s", e.At.Seconds(), who, e.Text)
}

// note records an event now; m may be nil.
func (w *world) note(m *machine, format string, args ...any) {
	e := Event{At: w.clock(), Peer: -1, Text: fmt.Sprintf(format, args...)}
	if m != nil {
		e.Peer = m.n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// noteEnd records that a process has exited by itself.
func (w *world) noteEnd(m *machine, err error) {
	w.note(m, "exited by itself: %v", err)
	if err == nil { // it was told to leave
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, fmt.Sprintf("%s exited by itself at %v: %v", m.name, w.clock(), err))
}

// sample reads which subnets the running peers own and records changes.
func (w *world) sample() {
	for _, m := range w.machines {
		if !m.running() {
			continue
		}
		now := map[string]admin.Subnet{}
		replicas := m.node.Replicas()
		for _, s := range m.node.Subnets() {
			now[s.Subnet] = s
			w.recordSubnet(m, s)
			w.recordTerm(m, s, w.peerNumbers(replicas[netip.MustParsePrefix(s.Subnet)]))
		}
		for p, peers := range w.held {
			if _, ok := now[p]; !ok && peers[m.n].Subnet != "" {
				delete(peers, m.n)
				w.note(m, "released %s", p)
			}
		}
	}
}

func (w *world) recordSubnet(m *machine, s admin.Subnet) {
	if w.held == nil {
		w.held, w.highest = map[string]map[int]admin.Subnet{}, map[string]uint64{}
	}
	if w.held[s.Subnet] == nil {
		w.held[s.Subnet] = map[int]admin.Subnet{}
	}
	was := w.held[s.Subnet][m.n]
	w.held[s.Subnet][m.n] = s
	if was.Epoch != s.Epoch || was.State != s.State {
		w.note(m, "owns %s: %s, epoch %d", s.Subnet, s.State, s.Epoch)
	}
	if s.Epoch < was.Epoch {
		w.decreased = append(w.decreased, fmt.Sprintf("%s at peer %d: epoch %d after %d, at %v",
			s.Subnet, m.n, s.Epoch, was.Epoch, w.clock()))
	}
	w.highest[s.Subnet] = max(w.highest[s.Subnet], s.Epoch)
}
