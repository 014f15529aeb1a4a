package network_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl/network"
)

// A check asks no server that politeness forbids to ask, and waits some seconds for one that it
// allows before it takes the peer for offline.
func TestChecksArePolite(t *testing.T) {
	start := func(t *testing.T) (w *world, sites []netip.Addr) {
		w, sites = newWorld(t), addrs(6)
		w.others(network.NotAsked, network.NotAsked)
		w.set(accepts, sites[2:]...)
		w.fetch(sites[2:]...)
		w.rest(true)
		w.fetch(sites[:2]...)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dials = 0
		return w, sites
	}
	t.Run("a server may be asked again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := start(t)
			w.want(time.Second, network.Suspected)
			if dials, _, _ := w.counts(); dials != 0 {
				t.Errorf("%d connections, want none", dials)
			}
			w.rest(false)
			w.want(3*time.Second, network.Online)
			if dials, sent, taken := w.counts(); dials == 0 || sent == 0 || taken != 0 {
				t.Errorf("%d connections, clocks of %d moved and of %d still taken, "+
					"want both above 0, and 0", dials, sent, taken)
			}
		})
	})
	t.Run("no server may be asked", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := start(t)
			w.want(10*time.Second, network.Online)
			dials, sent, taken := w.counts()
			if dials == 0 || dials > 2*2 {
				t.Errorf("%d connections, want some at two ports of two servers", dials)
			}
			if sent == 0 || taken != 0 {
				t.Errorf("clocks of %d servers moved and of %d still taken, want some and none",
					sent, taken)
			}
		})
	})
	t.Run("no server is this peer's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, _ := start(t)
			w.lose(true)
			w.want(5*time.Second, network.Offline)
			w.rest(false)
			w.want(time.Minute, network.Offline)
			if dials, _, _ := w.counts(); dials != 0 {
				t.Errorf("%d connections to servers of other peers, want none", dials)
			}
			w.lose(false)
			w.want(5*time.Second, network.Online)
		})
	})
	t.Run("the network is down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, sites := start(t)
			w.set(drops, sites...)
			w.want(10*time.Second, network.Offline)
			w.rest(false)
			w.want(time.Minute, network.Offline)
			if _, sent, taken := w.counts(); sent != 0 || taken > 6 {
				t.Errorf("clocks of %d servers moved that noticed nothing, %d still taken",
					sent, taken)
			}
		})
	})
}
