package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// two returns a finder and an owner of all subnets, of the hosts given.
func two(t *testing.T, hosts ...string) (finder, owner *testPeer) {
	t.Helper()
	a, b := listen(t), listen(t)
	know(a, b)
	finder, owner = newPeer(t, a, open(t, "")), newPeer(t, b, open(t, ""))
	finder.resolve = foreignTo(b.ID(), 1)
	for _, h := range hosts {
		owner.own[h] = true
	}
	return finder, owner
}

func TestBatchesReachTheOwner(t *testing.T) {
	a, b := two(t, "x.test", "y.test")
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 1234)
	a.give("y.test", 3)
	if got := a.f.Stats(); got != (Stats{Outbox: 1237}) {
		t.Fatalf("before: %+v", got)
	}
	stop := a.run()
	eventually(t, "all delivered", a.idle)
	stop()
	if x, y := b.queued("x.test"), b.queued("y.test"); x != 1234 || y != 3 {
		t.Errorf("queued %d and %d, want 1234 and 3", x, y)
	}
	if !a.f.Sent(url("x.test", 7)) || a.f.Sent(url("x.test", 9999)) {
		t.Error("Sent does not tell what was sent")
	}
	c := a.db.Counters()
	if c.URLsSent != 1237 || c.BatchesSent < 12 || c.BatchesSent > 40 {
		t.Errorf("counted %d URLs in %d batches", c.URLsSent, c.BatchesSent)
	}
	if c := b.db.Counters(); c.URLsReceived != 1237 {
		t.Errorf("received %d", c.URLsReceived)
	}
}

// What breaks between the owner's commit and the finder's may come twice, and
// must do so rather than not at all.
func TestBrokenConversations(t *testing.T) {
	a, b := two(t, "x.test")
	n := 0
	s := wire.Serve(b.host, proto, batchLimits, nil, func(_ context.Context, c *wire.Conn) error {
		b.mu.Lock()
		n++
		how := n % 4
		b.mu.Unlock()
		if how == 1 {
			return errors.New("before reading")
		}
		var m batch
		if err := c.RecvZ(&m); err != nil {
			return err
		}
		if how == 2 {
			return errors.New("before storing")
		}
		r, err := b.f.receive(context.Background(), m)
		if err != nil {
			t.Errorf("receive: %v", err)
			return err
		}
		if how == 3 {
			return errors.New("before the receipt")
		}
		return c.Send(r)
	})
	defer s.Close()
	a.give("x.test", 450)
	a.run()
	eventually(t, "all delivered", a.idle)
	if got := b.queued("x.test"); got != 450 {
		t.Errorf("%d queued, want 450", got)
	}
	if c := b.db.Counters(); c.URLsReceived <= 450 {
		t.Errorf("received %d: nothing came twice", c.URLsReceived)
	}
	if c := a.db.Counters(); c.URLsSent != 450 {
		t.Errorf("sent %d, want 450", c.URLsSent)
	}
}

func TestOwnerRestarts(t *testing.T) {
	a, b := listen(t), listen(t)
	know(a, b)
	finder := newPeer(t, a, open(t, ""))
	finder.resolve = foreignTo(b.ID(), 1)
	dir := t.TempDir()
	owner := newPeer(t, b, open(t, dir))
	owner.own["x.test"] = true
	// The first life stores one batch and dies before the receipt.
	died := make(chan struct{})
	first := wire.Serve(b, proto, batchLimits, nil, func(_ context.Context, c *wire.Conn) error {
		var m batch
		if err := c.RecvZ(&m); err != nil {
			return err
		}
		select {
		case <-died:
		default:
			if _, err := owner.f.receive(context.Background(), m); err != nil {
				t.Error(err)
			}
			close(died)
		}
		return errors.New("dead")
	})
	finder.give("x.test", 150)
	finder.run()
	<-died
	first.Close()
	if err := owner.db.Close(); err != nil {
		t.Fatal(err)
	}
	owner.restart(open(t, dir))
	if got := owner.queued("x.test"); got == 0 {
		t.Error("what was stored is lost")
	}
	second := owner.f.Serve()
	defer second.Close()
	eventually(t, "all delivered", finder.idle)
	if got := owner.queued("x.test"); got != 150 {
		t.Errorf("%d queued, want 150", got)
	}
}

func TestFinderRestarts(t *testing.T) {
	a, b := two(t, "x.test")
	a.db = open(t, t.TempDir())
	a.restart(a.db)
	a.give("x.test", 30)
	a.restart(a.db)
	if got := a.f.Stats(); got.Outbox != 30 {
		t.Fatalf("after the restart: %+v", got)
	}
	s := b.f.Serve()
	defer s.Close()
	a.run()
	eventually(t, "all delivered", a.idle)
	if got := b.queued("x.test"); got != 30 {
		t.Errorf("%d queued, want 30", got)
	}
}

func TestOwnerHasChanged(t *testing.T) {
	a, b := two(t)
	c := newPeer(t, listen(t), open(t, ""))
	know(a.host, c.host)
	c.own["x.test"] = true
	b.receive = func(netip.Prefix) (bool, bool, []byte) { return false, false, []byte("it is c's") }
	a.learn = func(l []byte) {
		if string(l) == "it is c's" {
			a.resolve = foreignTo(c.host.ID(), 1)
		}
	}
	for _, p := range []*testPeer{b, c} {
		s := p.f.Serve()
		defer s.Close()
	}
	a.give("x.test", 20)
	a.run()
	eventually(t, "all delivered", a.idle)
	if got := c.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestDeadOwnerIsAskedForAnew(t *testing.T) {
	a, b := two(t, "x.test")
	dead := listen(t)
	know(a.host, dead)
	id := dead.ID()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	a.resolve = foreignTo(id, 1)
	reads := 0
	a.refresh = func(p netip.Prefix, owner peer.ID) (bool, error) {
		if reads++; reads < 3 || p != subnet(1) || owner != id {
			return false, nil
		}
		a.resolve = foreignTo(b.host.ID(), 1)
		return true, nil
	}
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 20)
	a.run()
	eventually(t, "all delivered", a.idle)
	if got := b.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestMovingSubnetComesAgain(t *testing.T) {
	a, b := two(t, "x.test", "y.test")
	moving := 5
	b.receive = func(p netip.Prefix) (bool, bool, []byte) {
		if p == subnet(1) && moving > 0 {
			moving--
			return false, true, nil
		}
		return true, false, nil
	}
	a.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if h == "x.test" {
			return foreignTo(b.host.ID(), 1)(h, netip.Addr{})
		}
		return foreignTo(b.host.ID(), 2)(h, netip.Addr{})
	}
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 20)
	a.give("y.test", 20)
	a.run()
	eventually(t, "all delivered", a.idle)
	if x, y := b.queued("x.test"), b.queued("y.test"); x != 20 || y != 20 || moving != 0 {
		t.Errorf("queued %d and %d", x, y)
	}
}

func TestNurseryIsClaimed(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	claims := 0
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if claims == 3 {
			p.own[h] = true
			return Resolution{Kind: Own, Subnet: subnet(1)}, nil
		}
		return Resolution{Kind: Unowned, Subnet: subnet(1)}, nil
	}
	p.claim = func(s netip.Prefix) error {
		if claims++; claims < 3 {
			return errors.New("alone")
		}
		return nil
	}
	p.run()
	p.give("x.test", 2)
	p.give("y.test", 1)
	eventually(t, "in the nursery", func() bool { return p.f.Stats() == Stats{Nursery: 3} })
	if rows := p.f.Rows(); len(rows) != 2 || rows[0].State != "nursery" || rows[0].Subnet != subnet(1) || rows[0].Count != 2 {
		t.Errorf("rows: %+v", rows)
	}
	p.give("z.test", 1)
	eventually(t, "all enqueued", p.idle)
	for h, want := range map[string]int{"x.test": 2, "y.test": 1, "z.test": 1} {
		if got := p.queued(h); got != want {
			t.Errorf("%s: %d queued, want %d", h, got, want)
		}
	}
}

// The crawler may tell of URLs after they have been moved already.
func TestLateNews(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		p.own[h] = true
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.late = func() {
		p.set(func() { p.own["x.test"] = true })
		for more := true; more; {
			var err error
			if _, more, err = p.Enqueue("x.test"); err != nil {
				t.Error(err)
			}
		}
	}
	p.give("x.test", 20)
	if got := p.f.Stats(); got.Outbox != 20 {
		t.Fatalf("%+v", got)
	}
	p.run()
	eventually(t, "the count is corrected", p.idle)
	if asked := p.asked["x.test"]; asked > 2 {
		t.Errorf("asked %d times", asked)
	}
	if got := p.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

func TestGoneHostIsDropped(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{}, fmt.Errorf("%w: x", ErrGone) }
	p.give(strings.Repeat("a", 63)+"."+strings.Repeat("b", 63)+".test", 2300)
	p.run()
	eventually(t, "dropped", p.idle)
	if got := p.db.Counters().Failed; got != 2300 {
		t.Errorf("%d failed, want 2300", got)
	}
}

func TestNameIsGivenUp(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if h == "x.test" {
			return Resolution{}, fmt.Errorf("%w: no server", ErrUnresolved)
		}
		return Resolution{}, errors.New("the DHT is slow")
	}
	p.give("x.test", 10)
	p.give("y.test", 10)
	stop := p.run()
	eventually(t, "given up", func() bool { return p.waiting() == 10 })
	eventually(t, "the other is still asked for", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.asked["y.test"] > 2*DefaultNameTries
	})
	stop()
	if got := p.asked["x.test"]; got != DefaultNameTries {
		t.Errorf("asked %d times, want %d", got, DefaultNameTries)
	}
	if got := p.db.Counters().Failed; got != 10 {
		t.Errorf("%d failed, want 10", got)
	}
	if got := p.f.Stats(); got != (Stats{Outbox: 10}) {
		t.Errorf("left: %+v", got)
	}
}

func TestNameWaits(t *testing.T) {
	c := Config{Retry: time.Second, MaxRetry: 30 * time.Second}
	var sum time.Duration
	for i := range DefaultNameTries - 1 {
		sum += c.nameWait(i)
	}
	if sum < time.Minute || sum > 2*time.Minute {
		t.Errorf("a name is given up after %v", sum)
	}
	if w := c.wait(1000); w != c.MaxRetry {
		t.Errorf("wait(1000) = %v", w)
	}
}

func TestHintIsPassedOn(t *testing.T) {
	a, b := two(t)
	got := make(chan netip.Addr, 1)
	b.resolve = func(_ string, hint netip.Addr) (Resolution, error) {
		select {
		case got <- hint:
		default:
		}
		return Resolution{}, errors.New("enough")
	}
	s := b.f.Serve()
	defer s.Close()
	a.give("x.test", 1)
	a.run()
	b.run()
	if h := <-got; h != addr(1) {
		t.Errorf("hint %v, want %v", h, addr(1))
	}
}

func TestStoreErrorEndsRun(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.give("x.test", 1)
	if err := p.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.f.Run(t.Context()); err == nil {
		t.Error("no error")
	}
}

func TestConfigValidate(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	err := Config{NameTries: -1, MaxAge: -1}.Validate()
	for _, want := range []string{"DB", "Host", "Protocol", "Resolver", "Sink", "Check", "MaxURLs", "MaxAge", "NurseryURLs", "Retry", "NameTries"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
	if err := p.config().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("New takes anything")
	}
}

// A subnet that changes hands, told by Reconsider, takes its URLs along.
func TestReconsider(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{Kind: Unowned, Subnet: subnet(1)}, nil }
	p.run()
	p.give("x.test", 3)
	eventually(t, "in the nursery", func() bool { return p.f.Stats() == Stats{Nursery: 3} })
	p.set(func() {
		p.own["x.test"] = true
		p.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{Kind: Own, Subnet: subnet(1)}, nil }
	})
	p.f.Reconsider(subnet(2))
	p.f.Reconsider(subnet(1))
	eventually(t, "enqueued", p.idle)
	if got := p.queued("x.test"); got != 3 {
		t.Errorf("%d queued, want 3", got)
	}
}

// A host of ours that cannot take URLs now gets them later.
func TestSubnetLeavesAgain(t *testing.T) {
	p := newPeer(t, listen(t), open(t, ""))
	p.resolve = func(h string, _ netip.Addr) (Resolution, error) {
		if p.asked[h] == 4 {
			p.own[h] = true
		}
		return Resolution{Kind: Own, Subnet: subnet(1)}, nil
	}
	p.run()
	p.give("x.test", 20)
	eventually(t, "enqueued", p.idle)
	if got := p.queued("x.test"); got != 20 {
		t.Errorf("%d queued, want 20", got)
	}
}

// While a batch is under way its hosts may become ours: no URL is counted, or
// forgotten, twice.
func TestOwnerChangesUnderWay(t *testing.T) {
	a, b := two(t, "x.test")
	arrived, answer := make(chan struct{}), make(chan struct{})
	s := wire.Serve(b.host, proto, batchLimits, nil, func(_ context.Context, c *wire.Conn) error {
		var m batch
		if err := c.RecvZ(&m); err != nil {
			return err
		}
		r, err := b.f.receive(context.Background(), m)
		if err != nil {
			return err
		}
		close(arrived)
		<-answer
		return c.Send(r)
	})
	defer s.Close()
	a.give("x.test", 30)
	a.run()
	<-arrived
	a.set(func() {
		a.own["x.test"] = true
		a.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{Kind: Own, Subnet: subnet(1)}, nil }
	})
	a.f.Reconsider(subnet(1))
	eventually(t, "enqueued", func() bool { return a.queued("x.test") == 30 })
	a.set(func() { a.own["x.test"] = false })
	a.set(func() {
		a.resolve = func(string, netip.Addr) (Resolution, error) { return Resolution{}, errors.New("not yet") }
	})
	if err := a.Route([]store.Pending{{URL: "http://x.test/new"}}); err != nil {
		t.Fatal(err)
	}
	close(answer)
	eventually(t, "the receipt", func() bool { return a.db.Counters().BatchesSent == 1 })
	if got := a.f.Stats(); got != (Stats{Outbox: 1}) || a.waiting() != 1 {
		t.Errorf("%+v, %d in the store, want the new one", got, a.waiting())
	}
	if c := a.db.Counters(); c.URLsSent != 0 {
		t.Errorf("%d URLs counted twice", c.URLsSent)
	}
}

var (
	_ Sink     = (*testPeer)(nil)
	_ Resolver = (*testPeer)(nil)
)
