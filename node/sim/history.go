package sim

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"peerd/node/admin"
)

// history is what happened, as the harness saw it; what the sites saw is in
// their log. It is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	events []Event
	ended  []string                        // processes that nobody had ended
	held   map[string]map[int]admin.Subnet // subnet, peer
	shrunk []string                        // epochs that did
	top    map[string]uint64               // the highest epoch ever seen
	terms  map[string][]*term              // by subnet, in the order of their begins
	asks   []ask                           // by time
}

// Event is one line of the history.
type Event struct {
	At   time.Duration // since the world began
	Peer int           // -1: nobody's
	Text string
}

func (e Event) String() string {
	who := "       "
	if e.Peer >= 0 {
		who = fmt.Sprintf("peer %-2d", e.Peer)
	}
	return fmt.Sprintf("%8.3fs %s %s", e.At.Seconds(), who, e.Text)
}

// note writes a line; m may be nil.
func (w *world) note(m *machine, format string, args ...any) {
	e := Event{At: w.clock(), Peer: -1, Text: fmt.Sprintf(format, args...)}
	if m != nil {
		e.Peer = m.n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// noteEnd writes down that a process has ended by itself.
func (w *world) noteEnd(m *machine, err error) {
	w.note(m, "ended by itself: %v", err)
	if err == nil { // it was told to leave
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, fmt.Sprintf("%s ended by itself, at %v: %v", m.name, w.clock(), err))
}

// sample looks at what the running peers hold and notes what has changed.
func (w *world) sample() {
	for _, m := range w.machines {
		if !m.running() {
			continue
		}
		now := map[string]admin.Subnet{}
		shadows := m.node.Shadows()
		for _, s := range m.node.Subnets() {
			now[s.Subnet] = s
			w.saw(m, s)
			w.holds(m, s, w.numbers(shadows[netip.MustParsePrefix(s.Subnet)]))
		}
		for p, peers := range w.held {
			if _, ok := now[p]; !ok && peers[m.n].Subnet != "" {
				delete(peers, m.n)
				w.note(m, "holds %s no more", p)
			}
		}
	}
}

func (w *world) saw(m *machine, s admin.Subnet) {
	if w.held == nil {
		w.held, w.top = map[string]map[int]admin.Subnet{}, map[string]uint64{}
	}
	if w.held[s.Subnet] == nil {
		w.held[s.Subnet] = map[int]admin.Subnet{}
	}
	was := w.held[s.Subnet][m.n]
	w.held[s.Subnet][m.n] = s
	if was.Epoch != s.Epoch || was.State != s.State {
		w.note(m, "holds %s: %s, epoch %d", s.Subnet, s.State, s.Epoch)
	}
	if s.Epoch < was.Epoch {
		w.shrunk = append(w.shrunk, fmt.Sprintf("%s at peer %d: epoch %d after %d, at %v", s.Subnet, m.n, s.Epoch, was.Epoch, w.clock()))
	}
	w.top[s.Subnet] = max(w.top[s.Subnet], s.Epoch)
}
