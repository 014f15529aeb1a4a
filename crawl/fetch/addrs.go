package fetch

import (
	"net/netip"
	"sync"
	"time"

	"peerd/internal/lru"
)

const (
	// minDeadTime is how long an address counts as dead after its first failure; the time doubles
	// with each further one, up to maxDeadTime.
	minDeadTime = 30 * time.Second
	maxDeadTime = time.Hour
	// maxAddrs bounds the addresses that are remembered.
	maxAddrs = 1 << 16
)

// addrState is what is known of an address and port.
type addrState uint8

const (
	addrUnknown   addrState = iota
	addrAnswering           // it answered when it was last asked
	addrDead                // it did not, and it is not long ago
)

// addrRecord is a state of an address and port.
type addrRecord struct {
	state addrState
	since time.Time
	wait  time.Duration // how long a dead address counts as dead
}

// at returns the state at a time: a dead address becomes unknown.
func (r addrRecord) at(now time.Time) addrState {
	if r.state == addrDead && now.Sub(r.since) >= r.wait {
		return addrUnknown
	}
	return r.state
}

// addrTable remembers which addresses answer. It only ranks addresses: a dead one is dialled after
// the others, but it is dialled. It is shared by all hosts and safe for concurrent use.
type addrTable struct {
	mu      sync.Mutex
	records *lru.Simple[netip.AddrPort, addrRecord]
}

func newAddrTable() *addrTable {
	return &addrTable{records: lru.NewSimple[netip.AddrPort, addrRecord](maxAddrs, nil)}
}

// state returns the state of a, and how long ago it was last asked.
func (t *addrTable) state(a netip.AddrPort) (addrState, time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	r, _ := t.records.Get(a)
	return r.at(now), now.Sub(r.since)
}

// dead reports whether a is dead.
func (t *addrTable) dead(a netip.AddrPort) bool {
	s, _ := t.state(a)
	return s == addrDead
}

// answered records that a has answered.
func (t *addrTable) answered(a netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records.Add(a, addrRecord{state: addrAnswering, since: time.Now()})
}

// failed records that a has not answered. A failure while a is dead changes nothing: several
// requests may fail at once.
func (t *addrTable) failed(a netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	r, _ := t.records.Get(a)
	if r.at(now) == addrDead {
		return
	}
	if r.state != addrDead {
		r.wait = minDeadTime / 2
	}
	r.wait = min(2*r.wait, maxDeadTime)
	r.state, r.since = addrDead, now
	t.records.Add(a, r)
}

// forget removes everything.
func (t *addrTable) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records.Purge()
}

// rank moves the dead ones among addrs behind the others, which stay in order.
func (t *addrTable) rank(addrs []netip.AddrPort) {
	var dead []netip.AddrPort
	others := addrs[:0]
	for _, a := range addrs {
		if t.dead(a) {
			dead = append(dead, a)
		} else {
			others = append(others, a)
		}
	}
	copy(addrs[len(others):], dead)
}

// ForgetAddrs forgets which addresses have answered and which have not. Call it when the network of
// this peer has returned: the failures were not those of the addresses.
func (f *Fetcher) ForgetAddrs() { f.addrs.forget() }
