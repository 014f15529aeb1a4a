package outbox

import (
	"context"
	"errors"
	"testing"

	"peerd/overlay/wire"
)

// If a stream breaks between the owner's commit and the finder's, the URLs are sent twice
// rather than never.
func TestBrokenStreams(t *testing.T) {
	t.Parallel()
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
	a.addPending("x.test", 450)
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if got := b.queued("x.test"); got != 450 {
		t.Errorf("%d queued, want 450", got)
	}
	if c := b.db.Counters(); c.URLsReceived <= 450 {
		t.Errorf("received %d URLs, want some twice", c.URLsReceived)
	}
	if c := a.db.Counters(); c.URLsSent != 450 {
		t.Errorf("sent %d, want 450", c.URLsSent)
	}
}

func TestOwnerRestarts(t *testing.T) {
	t.Parallel()
	a, b := listen(t), listen(t)
	introduce(a, b)
	finder := newPeer(t, a, open(t, ""))
	finder.resolve = ownedBy(b.ID(), 1)
	dir := t.TempDir()
	owner := newPeer(t, b, open(t, dir))
	owner.own["x.test"] = true
	// The owner stores one batch and stops before it sends the receipt.
	stored := make(chan struct{})
	first := wire.Serve(b, proto, batchLimits, nil, func(_ context.Context, c *wire.Conn) error {
		var m batch
		if err := c.RecvZ(&m); err != nil {
			return err
		}
		select {
		case <-stored:
		default:
			if _, err := owner.f.receive(context.Background(), m); err != nil {
				t.Error(err)
			}
			close(stored)
		}
		return errors.New("stopped")
	})
	finder.addPending("x.test", 150)
	finder.run()
	<-stored
	first.Close()
	if err := owner.db.Close(); err != nil {
		t.Fatal(err)
	}
	owner.restart(open(t, dir))
	if got := owner.queued("x.test"); got == 0 {
		t.Error("a stored URL was lost")
	}
	second := owner.f.Serve()
	defer second.Close()
	eventually(t, "all URLs are delivered", finder.idle)
	if got := owner.queued("x.test"); got != 150 {
		t.Errorf("%d queued, want 150", got)
	}
}

func TestFinderRestarts(t *testing.T) {
	t.Parallel()
	a, b := two(t, "x.test")
	a.db = open(t, t.TempDir())
	a.restart(a.db)
	a.addPending("x.test", 30)
	a.restart(a.db)
	if got := a.f.Stats(); got.Outbox != 30 {
		t.Fatalf("Stats() after the restart = %+v, want 30 in the outbox", got)
	}
	s := b.f.Serve()
	defer s.Close()
	a.run()
	eventually(t, "all URLs are delivered", a.idle)
	if got := b.queued("x.test"); got != 30 {
		t.Errorf("%d queued, want 30", got)
	}
}
