package frontier_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

const (
	stressSubnets = 4
	stressAddrs   = 3  // a subnet
	stressHosts   = 3  // an address
	stressPages   = 40 // a host
	singleSubnet  = 0  // goes in single file, and is never dropped
)

// A witness stands at the web's end: it sees requests begin and end, and knows
// nothing of how they came about.
type witness struct {
	t       *testing.T
	mu      sync.Mutex
	busy    map[netip.Addr]string
	free    map[netip.Addr]time.Time
	waiting map[string]time.Time // host: not before
	flying  map[netip.Prefix]int
	paused  map[netip.Prefix]bool
	fetched map[store.URL]int
}

func (c *witness) begin(j frontier.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if other, ok := c.busy[j.Addr]; ok {
		c.t.Errorf("%s asked for %s during %s", j.Addr, j.Host, other)
	}
	if at := c.free[j.Addr]; now.Before(at) {
		c.t.Errorf("%s asked %s too early", j.Addr, at.Sub(now))
	}
	if at := c.waiting[j.Host]; now.Before(at) {
		c.t.Errorf("%s asked %s too early", j.Host, at.Sub(now))
	}
	if c.paused[j.Subnet] {
		c.t.Errorf("%s asked while its subnet is paused", j.Host)
	}
	if j.Subnet == subnet(singleSubnet) && c.flying[j.Subnet] > 0 {
		c.t.Errorf("%s asked while another is, in single file", j.Host)
	}
	c.busy[j.Addr] = j.Host
	c.flying[j.Subnet]++
}

func (c *witness) end(j frontier.Job, asked, done bool, gap, hostWait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	delete(c.busy, j.Addr)
	c.flying[j.Subnet]--
	if asked {
		c.free[j.Addr] = now.Add(gap)
		if hostWait > 0 {
			c.waiting[j.Host] = now.Add(hostWait)
		}
	}
	if done {
		c.fetched[j.Entry.URL]++
	}
}

func (c *witness) pause(p netip.Prefix, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[p] = on
	if on && c.flying[p] != 0 {
		c.t.Errorf("%s paused with %d requests under way", p, c.flying[p])
	}
}

func stressHost(s, a, h int) string { return fmt.Sprintf("h%d-%d-%d", s, a, h) }

func anyHost() string {
	return stressHost(rand.IntN(stressSubnets), rand.IntN(stressAddrs), rand.IntN(stressHosts))
}

func millis(n int) time.Duration { return time.Duration(rand.IntN(n)) * time.Millisecond }

// worker fetches until ctx ends: every URL leads to a few others.
func (w world) worker(ctx context.Context, c *witness) {
	for {
		j, err := w.Next(ctx)
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				w.t.Error(err)
			}
			return
		}
		c.begin(j)
		pass(millis(50))
		gap, hostWait := gap+millis(300), time.Duration(0)
		switch rand.IntN(8) {
		case 0: // nothing was sent
			c.end(j, false, false, 0, 0)
			w.Return(j, false)
			continue
		case 1: // it failed
			if err := w.db.Update(func(tx *store.Tx) error { return tx.Requeue(j.Host, j.Entry) }); err != nil {
				w.t.Error(err)
			}
			hostWait = millis(5000)
			c.end(j, true, false, gap, hostWait)
			w.Release(j, false, gap, hostWait)
			continue
		}
		w.commit(j)
		c.end(j, true, true, gap, 0)
		w.Release(j, true, gap, 0)
	}
}

// commit takes j out of its queue and pushes links, in one transaction if the
// links' hosts take them.
func (w world) commit(j frontier.Job) {
	links := map[string]store.URL{}
	for range 3 {
		h := anyHost()
		links[h] = page(h, rand.IntN(stressPages))
	}
	hosts := []string{}
	for h := range links {
		hosts = append(hosts, h)
	}
	remove := func(tx *store.Tx) error { return tx.Remove(j.Host, j.Entry) }
	err := w.Update(hosts, func(tx *store.Tx, push frontier.Push) error {
		for h, u := range links {
			if _, err := push(h, store.Entry{URL: u, Depth: rand.IntN(3)}); err != nil {
				return err
			}
		}
		return remove(tx)
	})
	if errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost) {
		err = w.db.Update(remove)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// mover pauses a subnet over and over, and takes it away and back.
func (w world) mover(i byte, c *witness) {
	for range 60 {
		pass(millis(4000))
		ctx, cancel := context.WithTimeout(w.t.Context(), 1+millis(60))
		err := w.Pause(ctx, subnet(i))
		cancel()
		if err != nil {
			wantErr(w.t, err, context.DeadlineExceeded)
			continue
		}
		c.pause(subnet(i), true)
		if err := w.tryPush(stressHost(int(i), 0, 0), 0, 1); !errors.Is(err, frontier.ErrPaused) {
			w.t.Errorf("push to a paused subnet: %v", err)
		}
		_, _, _, next := w.Load(subnet(i))
		pass(millis(3000))
		if i == singleSubnet || rand.IntN(2) == 0 {
			c.pause(subnet(i), false)
			w.Resume(subnet(i))
			continue
		}
		w.Drop(subnet(i))
		if err := w.tryPush(stressHost(int(i), 0, 0), 0, 1); !errors.Is(err, frontier.ErrUnknownHost) {
			w.t.Errorf("push to a dropped subnet: %v", err)
		}
		pass(millis(100))
		c.pause(subnet(i), false)
		w.Adopt(subnet(i), w.hostsOf(i), next)
	}
}

func TestStress(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		c := &witness{
			t: t, busy: map[netip.Addr]string{}, free: map[netip.Addr]time.Time{}, waiting: map[string]time.Time{},
			flying: map[netip.Prefix]int{}, paused: map[netip.Prefix]bool{}, fetched: map[store.URL]int{},
		}
		w.Single(subnet(singleSubnet), true)
		for s := range stressSubnets {
			for a := range stressAddrs {
				for h := range stressHosts {
					w.add(stressHost(s, a, h), addr(byte(s), byte(a)), stressPages/3)
				}
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var workers, movers sync.WaitGroup
		for range 16 {
			workers.Go(func() { w.worker(ctx, c) })
		}
		for i := range byte(stressSubnets) {
			movers.Go(func() { w.mover(i, c) })
		}
		movers.Wait()
		for s := w.Stats(); s.Pending > 0 || s.InFlight > 0; s = w.Stats() {
			pass(100 * time.Millisecond)
		}
		stop()
		workers.Wait()
		w.wantStats(stressSubnets*stressAddrs*stressHosts, 0, 0)
		c.wantOnce(w.db)
	})
}

// wantOnce asserts that everything accepted was fetched, once.
func (c *witness) wantOnce(db *store.DB) {
	for u, n := range c.fetched {
		if n != 1 {
			c.t.Errorf("%s fetched %d times", u, n)
		}
	}
	if seen := db.Counters().Seen; seen != int64(len(c.fetched)) {
		c.t.Errorf("%d URLs accepted, %d fetched", seen, len(c.fetched))
	}
	c.t.Logf("%d URLs", len(c.fetched))
}
