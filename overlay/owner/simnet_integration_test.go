//go:build integration

package owner

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/handover"
	"peerd/store"
	"peerd/store/kv"
)

// shift is a peer with working hours.
type shift struct {
	someone
	from, to int     // o'clock; both 0: always
	x        float64 // where it is, ms
	away     bool    // no peer knows it
}

func (s shift) closed(now time.Time) bool {
	h := now.Hour()
	switch {
	case s.from == s.to:
		return false
	case s.from < s.to:
		return h < s.from || h >= s.to
	}
	return h < s.from && h >= s.to
}

// simNet is a network of managers with working hours, on virtual time. Subnets move
// between them by the real offers, grants and leases, without streams.
type simNet struct {
	t      *testing.T
	shifts []shift
	peers  map[string]*member

	mu         sync.Mutex
	capacities map[string]float64 // as last announced
	moves      map[netip.Prefix][]time.Time
}

// simNetView is the Directory of all.
type simNetView struct{ w *simNet }

func (v simNetView) Candidates() []assign.Candidate {
	v.w.mu.Lock()
	defer v.w.mu.Unlock()
	var all []assign.Candidate
	for _, s := range v.w.shifts {
		if s.away {
			continue
		}
		at := coords.Coordinate{Vec: []float64{s.x, 0, 0}, Error: 0.1}
		all = append(all, assign.Candidate{ID: s.id.String(), At: at,
			Capacity: v.w.capacities[s.id.String()]})
	}
	return all
}

func (v simNetView) At(who string) (at coords.Coordinate, ok bool) {
	for _, c := range v.Candidates() {
		if c.ID == who {
			return c.At, true
		}
	}
	return at, false
}

// nearestOpen decides for the peer that is nearest to where a subnet is.
func nearestOpen(x func(netip.Prefix) float64) func(assign.Evidence) (assign.Step, error) {
	return func(e assign.Evidence) (assign.Step, error) {
		proxy := &coords.Proxy{At: coords.Coordinate{Vec: []float64{x(e.Subnet), 0, 0}}, Scale: 1,
			Samples: 3}
		best := assign.Candidate{ID: e.Self}
		for _, c := range e.Candidates {
			if e.Exclude[c.ID] {
				continue
			}
			if best.At.Vec == nil || proxy.Predict(c.At, page) < proxy.Predict(best.At, page) {
				best = c
			}
		}
		return assign.Step{Choice: best.ID, Proxy: proxy}, nil
	}
}

// newSimNet makes a peer for each of shifts, which change gives a strategy.
func newSimNet(t *testing.T, change func(*Config), shifts ...shift) *simNet {
	w := &simNet{t: t, shifts: shifts, peers: map[string]*member{},
		capacities: map[string]float64{}, moves: map[netip.Prefix][]time.Time{}}
	dht := newDHT()
	for _, s := range shifts {
		db, err := store.Open("", store.Options{Disk: kv.NewDisk()})
		if err != nil {
			t.Fatal(err)
		}
		m := join(t, s.someone, dht, db, func(c *Config) {
			c.Directory, c.Tick, c.Gap, c.DecideIdle = simNetView{w}, time.Minute, time.Second,
				time.Minute
			c.Limiter.(*limiter).limits = func(now time.Time) Limits {
				return Limits{Closed: s.closed(now) || s.closed(now.Add(10*time.Minute))}
			}
			c.Limiter.(*limiter).atCapacity = func(who string) bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.capacities[who] == 0
			}
			c.Sender = w.send(s.id)
			change(c)
		})
		w.peers[s.id.String()] = m
	}
	return w
}

// send hands a subnet over without a stream.
func (w *simNet) send(from peer.ID) sendFunc {
	return func(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (
		[]byte, error) {
		granted := false
		host := store.Host{Name: o.Subnet.Addr().String(), Subnet: o.Subnet, Addr: inside(o.Subnet)}
		successor := w.peers[to.String()]
		if err := successor.cfg.DB.Update(func(tx *store.Tx) error {
			tx.PutHost(host)
			return nil
		}); err != nil {
			return nil, err
		}
		sealed, err := handTo(ctx, from, successor, o, func() ([]byte, error) {
			granted = true
			return grant()
		})
		if err == nil && granted {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.moves[o.Subnet] = append(w.moves[o.Subnet], time.Now())
		}
		return sealed, err
	}
}

// announce has all peers announce their capacity, as beacons do.
func (w *simNet) announce() {
	for id, m := range w.peers {
		capacity := m.Capacity()
		w.mu.Lock()
		w.capacities[id] = capacity
		w.mu.Unlock()
	}
}

// pass lets time pass.
func (w *simNet) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Minute)
		w.announce()
	}
}

// load gives a subnet so much work wherever it is.
func (w *simNet) load(p netip.Prefix, n int64) {
	for _, m := range w.peers {
		m.frontier.load(p, n)
	}
}

// holder is the one owner of a subnet.
func (w *simNet) holder(p netip.Prefix) (who peer.ID) {
	n := 0
	for _, m := range w.peers {
		if m.Live(p) {
			who = m.me.id
			n++
		}
	}
	if n != 1 {
		w.t.Errorf("%v: %v has %d owners", time.Now(), p, n)
	}
	return who
}

// run runs all peers until the returned function is called.
func (w *simNet) run() (stop func()) {
	var stops []func()
	for _, m := range w.peers {
		stops = append(stops, m.run())
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
		for _, m := range w.peers {
			if err := m.cfg.DB.Close(); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// begin has a peer claim a subnet, which has one host and work.
func (w *simNet) begin(at someone, p netip.Prefix) {
	m := w.peers[at.id.String()]
	m.claim(p)
	if err := m.frontier.AddHost(p.Addr().String(), p, inside(p), time.Time{}); err != nil {
		w.t.Fatal(err)
	}
	w.load(p, 50)
}
