package attack

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"peerd/coords"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/store"
)

// A step is an attack on a whole network. do returns before end, except for what it cannot
// interrupt, and says what was sent.
type step struct {
	name string
	do   func(end time.Time) string
}

// Limits on what all members send together in a step, because the attackers share processors with
// the peers that they attack: 210,000 beacons were signed in 15 s.
const (
	mostBeacons = 100_000
	mostURLs    = 250_000
)

// steps returns the attacks in their order.
func (c *campaign) steps() []step {
	return []step{
		{"coordinates", c.lieAboutPlaces},
		{"made-up peers", c.makeUpPeers},
		{"false votes", c.lieAsWitness},
		{"fetch orders", c.order},
		{"made-up URLs", c.junk},
		{"planted homes and records", c.plant},
		{"memory", c.throwFrames},
		{"forged opt-outs", c.optOuts},
		{"silent streams", c.openSilently},
		{"theft of subnets", c.steal},
	}
}

// each calls f for all numbers below n at once.
func each(n int, f func(i int)) {
	var g sync.WaitGroup
	for i := range n {
		g.Go(func() { f(i) })
	}
	g.Wait()
}

// lieAboutPlaces sends beacons of new keys with places that change all the time: near, far, and
// at random.
func (c *campaign) lieAboutPlaces(end time.Time) string {
	var sent atomic.Int64
	each(2*len(c.members), func(i int) {
		s, err := c.e.stranger()
		if err != nil {
			return
		}
		s.place = func() coords.Coordinate {
			at := coords.Coordinate{Error: 0.05,
				Vec: make([]float64, coords.DefaultConfig().Dimensions)}
			size := []float64{0, 0.05, 1, 100}[i%4]
			for k := range at.Vec {
				at.Vec[k] = (rand.Float64() - 0.5) * size
			}
			return at
		}
		for n := 0; time.Now().Before(end) && c.e.sleep(200*time.Millisecond) == nil; n++ {
			if s.introduce(c.r.Peers[n%c.o.Honest], nil) == nil {
				sent.Add(1)
			}
		}
	})
	return fmt.Sprintf("%d beacons with made-up places", sent.Load())
}

// makeUpPeers relays beacons of peers that do not exist at a third party.
func (c *campaign) makeUpPeers(end time.Time) string {
	third, err := c.e.counter("127.34.1.1")
	if err != nil {
		return err.Error()
	}
	c.r.Network.Place(third.addr.Addr(), c.r.Layout.SitePlaces[1])
	at := fmt.Sprintf("/ip4/%v/tcp/%d", third.addr.Addr(), third.addr.Port())
	var sent atomic.Int64
	each(len(c.members), func(i int) {
		for n := i; time.Now().Before(end) && c.e.ctx.Err() == nil; n++ {
			if sent.Load() >= mostBeacons {
				return
			}
			some, err := c.members[i].madeUp(at)
			if err != nil {
				return
			}
			if c.members[i].introduce(c.r.Peers[n%c.o.Honest], some) == nil {
				sent.Add(int64(len(some)))
			}
		}
	})
	return fmt.Sprintf("%d beacons of peers that do not exist; %d connections to the third party",
		sent.Load(), third.n.Load())
}

// steal shows forged leases of all sites' subnets to all peers.
func (c *campaign) steal(end time.Time) string {
	targets := c.targets()
	var stored, shown atomic.Int64
	each(len(c.members), func(i int) {
		m := c.members[i]
		for k := i; k < len(targets) && time.Now().Before(end); k += len(c.members) {
			s := targets[k].site
			p := store.SubnetOf(s.addr.Addr())
			raw, err := m.net.Values().Get(c.e.ctx, lease.Key(p))
			if err != nil {
				continue
			}
			l, err := lease.OpenLease(raw)
			if err != nil {
				continue
			}
			all, err := forgeries(c.e, l)
			if err != nil {
				continue
			}
			for _, sealed := range all {
				f, err := lease.OpenLease(sealed)
				if err != nil {
					continue
				}
				stored.Add(int64(m.put(lease.Key(p), sealed)))
				answers := map[string]int{}
				for n := 0; n < len(c.r.Peers) && time.Now().Before(end); n++ {
					m.show(c.r.Peers[n], s, f, sealed, answers)
				}
				shown.Add(1)
			}
		}
	})
	return fmt.Sprintf("%d forged leases of %d sites; stored by %d record holders", shown.Load(),
		len(targets), stored.Load())
}

// lieAsWitness says in answers to heartbeats that the subnets of all sites have other owners.
func (c *campaign) lieAsWitness(end time.Time) string {
	targets := c.targets()
	if len(targets) == 0 {
		return "no site is crawled"
	}
	c.witness.lying.Store(true)
	defer c.witness.lying.Store(false)
	for n := 0; time.Now().Before(end) && c.e.sleep(time.Second) == nil; n++ {
		c.witness.about(store.SubnetOf(targets[n%len(targets)].addr.Addr()))
	}
	return fmt.Sprintf("%d heartbeats were answered", c.witness.heard.Load())
}

// order claims the subnet of a third party, and orders fetches there and of the sites.
func (c *campaign) order(end time.Time) string {
	third, err := newSite("127.36.1.7", netip.MustParseAddr("127.36.1.7"), 1)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = third.close() }()
	c.r.Network.Place(third.addr.Addr(), c.r.Layout.SitePlaces[2%c.o.Sites])
	m, p := c.members[0], store.SubnetOf(third.addr.Addr())
	_, sealed, err := c.e.claim(p, m.identity)
	if err != nil {
		return err.Error()
	}
	m.put(lease.Key(p), sealed)
	done := 0
	each(2, func(i int) {
		if i == 0 {
			done = m.order(third, sealed, third.addr.Addr(), 2, time.Until(end))
			return
		}
		for _, t := range c.targets() { // a lease of another subnet
			if time.Now().Before(end) {
				m.order(t.site, sealed, t.addr.Addr(), 1, time.Second)
			}
		}
	})
	return fmt.Sprintf("%d reports; at most %.1f requests/s at the third party, of %d peers", done,
		rate(third.all()), len(c.r.Peers))
}

// junk sends URLs that do not exist to the owners of all sites.
func (c *campaign) junk(end time.Time) string {
	var sent atomic.Int64
	targets := c.targets()
	each(len(c.members), func(i int) {
		for round := 0; time.Now().Before(end) && c.e.sleep(100*time.Millisecond) == nil; round++ {
			for k := i; k < len(targets) && time.Now().Before(end); k += len(c.members) {
				if sent.Load() >= mostURLs {
					return
				}
				urls := make([]string, 200)
				for j := range urls {
					urls[j] = targets[k].url(fmt.Sprintf("/junk%d-%d-%d", i, round, j))
				}
				_, err := c.members[i].batch(targets[k].owner, targets[k].host,
					targets[k].addr.Addr(), urls)
				if err == nil {
					sent.Add(int64(len(urls)))
				}
			}
		}
	})
	return fmt.Sprintf("%d URLs that do not exist", sent.Load())
}

// plant writes home records of the sites, and of hosts that do not exist, to all peers.
func (c *campaign) plant(end time.Time) string {
	var stored atomic.Int64
	planted := 0
	m, p := c.members[0], netip.MustParsePrefix("127.31.2.0/24")
	if _, sealed, err := c.e.claim(p, m.identity); err == nil {
		m.put(lease.Key(p), sealed)
	}
	dropped := m.dropBatches()
	m.claimToCrawl()
	for _, s := range c.r.Web.Sites() {
		rec, err := home.Seal(home.Record{Network: c.e.names.Network(), Host: s.Host, Subnet: p,
			By: m.id, Issued: c.e.now(), Epoch: 1 << 20}, m.key)
		if err == nil && time.Now().Before(end) {
			planted += m.put(home.Key(s.Host), rec)
		}
	}
	each(len(c.members), func(i int) {
		for n := i; time.Now().Before(end) && c.e.sleep(20*time.Millisecond) == nil; n++ {
			// A refusal is a result.
			got, _ := c.members[i].flood(c.r.Peers[n%c.o.Honest], n<<20, end)
			stored.Add(int64(got))
		}
	})
	return fmt.Sprintf("%d homes of sites planted, %d batches came; %d records of made-up hosts "+
		"stored", planted, dropped.Load(), stored.Load())
}

// throwFrames sends large and unfinished messages to all peers.
func (c *campaign) throwFrames(end time.Time) string {
	frames, err := largeFrames()
	if err != nil {
		return err.Error()
	}
	var sent, refused atomic.Int64
	each(8*len(c.members), func(i int) {
		for n := i; time.Now().Before(end) && c.e.ctx.Err() == nil; n++ {
			m := c.members[i%len(c.members)]
			if m.throw(c.r.Peers[n%c.o.Honest], frames[n%len(frames)]) == nil {
				sent.Add(1)
			} else {
				refused.Add(1)
				_ = c.e.sleep(50 * time.Millisecond)
			}
		}
	})
	return fmt.Sprintf("%d frames sent, %d refused", sent.Load(), refused.Load())
}

// optOuts says that all sites have opted out, until the end of the run.
func (c *campaign) optOuts(time.Time) string {
	sites := c.r.Web.Sites()
	for _, m := range c.members {
		err := m.claimOptOuts(func(i int) string { return sites[i%len(sites)].URL })
		if err != nil {
			return err.Error()
		}
	}
	return fmt.Sprintf("10 claims a second by %d members", len(c.members))
}

// openSilently opens streams without a message.
func (c *campaign) openSilently(end time.Time) string {
	var open atomic.Int64
	each(len(c.members), func(i int) {
		m := c.members[i]
		for n := i; time.Now().Before(end); n++ {
			to := c.r.Peers[n%c.o.Honest].ID()
			var streams []network.Stream
			for range 120 {
				st, err := m.host.NewStream(c.e.ctx, to, c.e.names.Batch())
				if err == nil {
					streams, _ = append(streams, st), open.Add(1)
				}
			}
			stop := c.e.sleep(time.Second)
			for _, st := range streams {
				_ = st.Reset()
			}
			if stop != nil {
				return
			}
		}
	})
	return fmt.Sprintf("%d silent streams", open.Load())
}
