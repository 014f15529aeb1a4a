package forward

import (
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/overlaytest"
	"peerd/store/kv"
)

// onDisk gives a peer a store on a disk that can be filled.
func (p *testPeer) onDisk(t *testing.T) *kv.Disk {
	t.Helper()
	disk := kv.NewDisk()
	p.restart(overlaytest.StoreOn(t, disk))
	return disk
}

// refusals returns how many writes were refused since the store was full.
func (p *testPeer) refusals() int64 {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	return p.f.full.refused
}

// suspects says whether the Forwarder takes a peer for one that does not answer.
func (p *testPeer) suspects(id peer.ID) (yes bool) {
	p.f.with(func(b *book) {
		r, _ := b.rests.Peek(id)
		yes = b.suspects[id] != nil || r.fails > 0
	})
	return yes
}

// A finder whose disk is full goes on when there is room again: nothing is lost, and
// what was delivered meanwhile is not forgotten before.
func TestFullFinder(t *testing.T) {
	a, b := two(t, "x.test", "y.test")
	disk := a.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 450)
	a.give("y.test", 3)
	disk.SetFull(true)
	stop := a.run() // fails the test if it ends by itself
	eventually(t, "the disk is tried again and again", func() bool { return a.refusals() > 3 })
	if got := a.waiting(); got != 453 {
		t.Errorf("%d URLs wait on a disk that takes no write, want 453", got)
	}
	disk.SetFull(false)
	eventually(t, "all delivered", a.idle)
	stop()
	if got := b.queued("x.test"); got != 450 {
		t.Errorf("%d queued, want 450", got)
	}
	if a.f.stalled() {
		t.Error("still stalled")
	}
}

// A finder whose disk is full sends the same URLs once a trial at the most.
func TestFullFinderRests(t *testing.T) {
	a, b := two(t, "x.test")
	disk := a.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 20)
	disk.SetFull(true)
	a.run()
	eventually(t, "some trials", func() bool { return a.refusals() > 20 })
	if got := b.db.Counters().BatchesReceived; got > 2 {
		t.Errorf("the owner got %d batches from a peer that cannot forget them", got)
	}
}

// An owner whose disk is full acknowledges nothing and is not taken for dead. It
// takes everything in when there is room.
func TestFullOwner(t *testing.T) {
	a, b := two(t, "x.test")
	disk := b.onDisk(t)
	s := b.f.Serve()
	defer s.Close()
	b.run()
	disk.SetFull(true)
	a.give("x.test", 150)
	a.run()
	eventually(t, "the owner has refused", b.f.stalled)
	eventually(t, "the URLs came again", func() bool {
		fails := 0
		a.f.with(func(bk *book) {
			if e := bk.hosts["x.test"]; e != nil {
				fails = e.fails
			}
		})
		return fails > 3
	})
	if got := a.waiting(); got != 150 {
		t.Errorf("%d URLs wait at the finder, want 150: the others were acknowledged", got)
	}
	if a.suspects(b.host.ID()) {
		t.Error("an owner that is full is taken for one that does not answer")
	}
	disk.SetFull(false)
	eventually(t, "all delivered", a.idle)
	if got := b.queued("x.test"); got != 150 {
		t.Errorf("%d queued, want 150", got)
	}
}

// A host that is given up, and one of ours, wait for room like all others.
func TestFullDiskKeepsHostsInTheBook(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	disk := p.onDisk(t)
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if h == "gone.test" {
			return Resolution{}, ErrGone
		}
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.give("gone.test", 5)
	p.give("mine.test", 5)
	disk.SetFull(true)
	p.run()
	eventually(t, "the disk is tried", func() bool { return p.refusals() > 3 })
	p.set(func() { p.own["mine.test"] = true })
	disk.SetFull(false)
	eventually(t, "both are done", p.idle)
	if got := p.queued("mine.test"); got != 5 {
		t.Errorf("%d queued, want 5", got)
	}
	if got := p.db.Counters().Failed; got != 5 {
		t.Errorf("%d failed, want 5", got)
	}
}

func TestFullRest(t *testing.T) {
	c := Config{Retry: time.Second, MaxRetry: 30 * time.Second}
	if got := c.fullRest(); got != 10*time.Second {
		t.Errorf("a full store is tried again after %v", got)
	}
}
