package owner

import (
	"context"
	"net/netip"
	"sync"

	"peerd/coords"
	"peerd/coords/assign"
)

// Seek makes the Directory learn of the peers nearest to a web server, in a
// network of which it knows only a part; given by node, from overlay/nearest.
type Seek func(ctx context.Context, target coords.Proxy) error

// seeker remembers for which subnets peers are to be sought: as soon as its
// server has a place, and again when twice as many samples place it. The decision
// does not wait for it: it goes on with who is known, and by the next step there
// may be better candidates.
type seeker struct {
	mu    sync.Mutex
	asked map[netip.Prefix]int          // samples behind the last search; until decided
	due   map[netip.Prefix]coords.Proxy // not begun
	busy  int                           // searches under way
}

// seeksAtOnce is how many searches are under way at a time: each asks a few
// peers, and a peer that found many subnets at once has one for each.
const seeksAtOnce = 8

// note takes in a strategy's step and reports whether there is something to do.
func (k *seeker) note(p netip.Prefix, step assign.Step) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case step.Choice != "":
		k.drop(p)
	case step.Proxy != nil && step.Proxy.Samples >= max(1, 2*k.asked[p]):
		if k.asked == nil {
			k.asked, k.due = map[netip.Prefix]int{}, map[netip.Prefix]coords.Proxy{}
		}
		k.asked[p], k.due[p] = step.Proxy.Samples, *step.Proxy
		return true
	}
	return false
}

// drop forgets a subnet; the mutex is held.
func (k *seeker) drop(p netip.Prefix) {
	delete(k.asked, p)
	delete(k.due, p)
}

// forget takes in that a subnet is not ours any more.
func (k *seeker) forget(p netip.Prefix) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(p)
}

// begin returns a search that is due, unless enough are under way; end must
// follow.
func (k *seeker) begin() (p netip.Prefix, target coords.Proxy, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy == seeksAtOnce {
		return p, target, false
	}
	for p, target = range k.due {
		delete(k.due, p)
		k.busy++
		return p, target, true
	}
	return p, target, false
}

// end takes in that a search has ended, and reports whether others wait for it.
func (k *seeker) end() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy--
	return len(k.due) > 0
}

// seek notes a step of a subnet's decision.
func (m *Manager) seek(p netip.Prefix, step assign.Step) {
	if m.cfg.Seek != nil && m.seeker.note(p, step) {
		m.wake()
	}
}

// toSeek returns the searches that are due, some at a time.
func (m *Manager) toSeek() []func(context.Context) {
	var tasks []func(context.Context)
	for {
		p, target, ok := m.seeker.begin()
		if !ok {
			return tasks
		}
		tasks = append(tasks, func(ctx context.Context) {
			err := m.cfg.Seek(ctx, target)
			if m.seeker.end() {
				m.wake()
			}
			if err != nil && ctx.Err() == nil {
				m.log.Debug("peers near a server were not found", "subnet", p, "err", err)
			}
		})
	}
}
