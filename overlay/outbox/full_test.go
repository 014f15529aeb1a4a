package outbox

import (
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store/kv"
)

// onDisk gives a peer a store on a disk that can be full.
func (p *testPeer) onDisk(t *testing.T) *kv.Disk {
	t.Helper()
	disk := kv.NewDisk()
	p.restart(overlaytest.StoreOnDisk(t, disk))
	return disk
}

// refusals returns the number of writes refused since the store became full.
func (p *testPeer) refusals() int64 {
	p.f.space.mu.Lock()
	defer p.f.space.mu.Unlock()
	return p.f.space.refused
}

// suspected reports whether the Forwarder treats a peer as one that does not answer.
func (p *testPeer) suspected(id peer.ID) (yes bool) {
	p.f.withTable(func(t *hostTable) {
		r, _ := t.backoffs.Peek(id)
		yes = t.reads.suspects[id] != nil || r.fails > 0
	})
	return yes
}

// A finder with a full disk continues when there is space. No URL is lost, and delivered URLs
// are not deleted early.
func TestFullFinder(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test", "y.test")
	disk := a.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 450)
	a.addPending("y.test", 3)
	disk.SetFull(true)
	stop := a.run() // fails the test if Run returns early
	eventually(t, "the store is probed several times", func() bool { return a.refusals() > 3 })
	if got := a.pendingURLs(); got != 453 {
		t.Errorf("%d URLs pending on a full disk, want 453", got)
	}
	disk.SetFull(false)
	eventually(t, "all URLs are delivered", a.idle)
	stop()
	if got := b.queued("x.test"); got != 450 {
		t.Errorf("%d queued, want 450", got)
	}
	if a.refusals() > 0 {
		t.Error("storeFull() = true, want false")
	}
}

// A finder with a full disk sends the same URLs at most once per probe.
func TestFullFinderBacksOff(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	disk := a.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	a.addPending("x.test", 20)
	disk.SetFull(true)
	a.run()
	eventually(t, "the store is probed many times", func() bool { return a.refusals() > 20 })
	if got := b.db.Counters().BatchesReceived; got > 2 {
		t.Errorf("the owner received %d batches, want at most 2", got)
	}
}

// An owner with a full disk acknowledges nothing and is not suspected. It accepts everything
// when there is space.
func TestFullOwner(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	disk := b.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	b.run()
	disk.SetFull(true)
	a.addPending("x.test", 150)
	a.run()
	eventually(t, "the owner is full", func() bool { return b.refusals() > 0 })
	eventually(t, "the URLs are sent again", func() bool {
		fails := 0
		a.f.withTable(func(t *hostTable) {
			if e := t.hosts["x.test"]; e != nil {
				fails = e.fails
			}
		})
		return fails > 3
	})
	if got := a.pendingURLs(); got != 150 {
		t.Errorf("%d URLs pending at the finder, want 150", got)
	}
	if a.suspected(b.host.ID()) {
		t.Error("a full owner is suspected")
	}
	disk.SetFull(false)
	eventually(t, "all URLs are delivered", a.idle)
	if got := b.queued("x.test"); got != 150 {
		t.Errorf("%d queued, want 150", got)
	}
}

// A host to be dropped and a host of this peer wait for space like all others.
func TestFullDiskKeepsHosts(t *testing.T) {
	t.Parallel()
	p := newPeer(t, listen(t), open(t, ""))
	disk := p.onDisk(t)
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if h == "gone.test" {
			return Resolution{}, ErrGone
		}
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.addPending("gone.test", 5)
	p.addPending("mine.test", 5)
	disk.SetFull(true)
	p.run()
	eventually(t, "the store is probed several times", func() bool { return p.refusals() > 3 })
	p.set(func() { p.own["mine.test"] = true })
	disk.SetFull(false)
	eventually(t, "both hosts are done", p.idle)
	if got := p.queued("mine.test"); got != 5 {
		t.Errorf("%d queued, want 5", got)
	}
	if got := p.db.Counters().Failed; got != 5 {
		t.Errorf("%d failed, want 5", got)
	}
}

func TestFullRetry(t *testing.T) {
	t.Parallel()
	c := Config{Retry: time.Second, MaxRetry: 30 * time.Second}
	if got := c.fullRetry(); got != 10*time.Second {
		t.Errorf("fullRetry() = %v, want 10s", got)
	}
}
