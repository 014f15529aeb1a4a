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
	stressAddrs   = 3  // per subnet
	stressHosts   = 3  // per address
	stressPages   = 40 // per host
	serialSubnet  = 0  // is serialized and never dropped
)

// A webMonitor observes requests as web servers do, independently of the frontier.
type webMonitor struct {
	t        *testing.T
	mu       sync.Mutex
	busy     map[netip.Addr]string
	free     map[netip.Addr]time.Time
	waiting  map[string]time.Time // by host: not before
	inFlight map[netip.Prefix]int
	paused   map[netip.Prefix]bool
	fetched  map[store.URL]int
}

func (c *webMonitor) begin(j frontier.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if other, ok := c.busy[j.Addr]; ok {
		c.t.Errorf("%s got a request for %s during one for %s", j.Addr, j.Host, other)
	}
	if at := c.free[j.Addr]; now.Before(at) {
		c.t.Errorf("request to %s %s too early", j.Addr, at.Sub(now))
	}
	if at := c.waiting[j.Host]; now.Before(at) {
		c.t.Errorf("request to %s %s too early", j.Host, at.Sub(now))
	}
	if c.paused[j.Subnet] {
		c.t.Errorf("request to %s while its subnet is paused", j.Host)
	}
	if j.Subnet == subnet(serialSubnet) && c.inFlight[j.Subnet] > 0 {
		c.t.Errorf("%s requested during another request in a serialized subnet", j.Host)
	}
	c.busy[j.Addr] = j.Host
	c.inFlight[j.Subnet]++
}

func (c *webMonitor) end(j frontier.Job, asked, done bool, gap, hostWait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	delete(c.busy, j.Addr)
	c.inFlight[j.Subnet]--
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

func (c *webMonitor) pause(p netip.Prefix, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused[p] = on
	if on && c.inFlight[p] != 0 {
		c.t.Errorf("%s paused with %d requests in progress", p, c.inFlight[p])
	}
}

func stressHost(s, a, h int) string { return fmt.Sprintf("h%d-%d-%d", s, a, h) }

func anyHost() string {
	return stressHost(rand.IntN(stressSubnets), rand.IntN(stressAddrs), rand.IntN(stressHosts))
}

func millis(n int) time.Duration { return time.Duration(rand.IntN(n)) * time.Millisecond }

// worker fetches until ctx ends. Every URL links to a few others.
func (w world) worker(ctx context.Context, c *webMonitor) {
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
		gap := gap + millis(300)
		switch rand.IntN(8) {
		case 0: // nothing was sent
			c.end(j, false, false, 0, 0)
			w.Return(j, false)
			continue
		case 1: // it failed
			if err := w.db.Update(func(tx *store.Tx) error {
				return tx.Requeue(j.Host, j.Entry)
			}); err != nil {
				w.t.Error(err)
			}
			hostWait := millis(5000)
			c.end(j, true, false, gap, hostWait)
			w.Release(j, false, gap, hostWait)
			continue
		}
		w.commit(j)
		c.end(j, true, true, gap, 0)
		w.Release(j, true, gap, 0)
	}
}

// commit removes j from its queue and pushes links, in one transaction if the links' hosts
// accept them.
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

// mover repeatedly pauses a subnet, drops it and adopts it again.
func (w world) mover(i byte, c *webMonitor) {
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
		_, _, _, next := w.SubnetLoad(subnet(i))
		pass(millis(3000))
		if i == serialSubnet || rand.IntN(2) == 0 {
			c.pause(subnet(i), false)
			w.Resume(subnet(i))
			continue
		}
		w.Drop(subnet(i))
		if err := w.tryPush(stressHost(int(i), 0, 0), 0, 1); !errors.Is(err,
			frontier.ErrUnknownHost) {
			w.t.Errorf("push to a dropped subnet: %v", err)
		}
		pass(millis(100))
		c.pause(subnet(i), false)
		w.Adopt(subnet(i), w.hostsOf(i), next)
	}
}

func TestStress(t *testing.T) {
	bubble(t, func(t *testing.T, w world) {
		c := &webMonitor{
			t: t, busy: map[netip.Addr]string{}, free: map[netip.Addr]time.Time{},
			waiting:  map[string]time.Time{},
			inFlight: map[netip.Prefix]int{}, paused: map[netip.Prefix]bool{},
			fetched: map[store.URL]int{},
		}
		w.SetSerial(subnet(serialSubnet), true)
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

// wantOnce fails the test unless everything accepted was fetched exactly once.
func (c *webMonitor) wantOnce(db *store.DB) {
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
