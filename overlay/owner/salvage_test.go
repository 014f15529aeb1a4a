package owner

import (
	"errors"
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/store"
)

// soon makes waits for the dead short.
func soon(c *Config) {
	c.Times = Times{Silence: time.Millisecond, Spread: 1, Orphan: 20 * time.Millisecond}
}

// salvaged checks that all that only the copy knew is rerouted, and the copy gone.
func (e *copyFixture) salvaged(t *testing.T) {
	t.Helper()
	until(t, "the copy is given up", func() bool {
		_, held := e.replicas.Copy(subnetA)
		return !held
	})
	if e.Live(subnetA) {
		t.Error("it is owned")
	}
	if len(e.routed) != heldURLs || e.deferred["else.test"] != 1 {
		t.Errorf("%d URLs and %v are rerouted", len(e.routed), e.deferred)
	}
}

// A peer without a copy took over while the one with a copy was away.
func TestOutdatedCopyIsSalvaged(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, soon)
	takenBy(t, carol, e.dht)
	e.run()
	e.salvaged(t)
	if e.witness.asked() != 0 {
		t.Error("asked for votes on another's subnet")
	}
}

func TestUnfinishedCopyIsSalvaged(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, soon)
	e.held.Complete = false
	e.replicas.held[subnetA] = e.held
	e.run()
	e.salvaged(t)
}

// An old copy is better than none, once no peer can have a newer one.
func TestOldCopyOfTheDead(t *testing.T) {
	t.Parallel()
	e := newCopyFixture(t, false, soon)
	e.held.Heard = e.heard.Add(-time.Hour)
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// A copy is not overwritten by an owner who may know less.
func TestWillingToLoseNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		by     someone // alice has lost her disk, or carol has taken over
		change func(o *replica.OpenRequest)
		marked bool
	}{
		"recreated": {carol, func(*replica.OpenRequest) {}, true},
		"without our last": {carol, func(o *replica.OpenRequest) {
			o.Base = store.LogPos{Log: 9, Seq: 3}
		}, true},
		"on our copy": {carol, func(o *replica.OpenRequest) {
			o.Base = store.LogPos{Log: 9, Seq: 4}
		}, false},
		"on a later one": {carol, func(o *replica.OpenRequest) {
			o.Base = store.LogPos{Log: 9, Seq: 7}
		}, false},
		"handed over by us": {alice, func(o *replica.OpenRequest) {
			o.Base = store.LogPos{Log: 9, Seq: 3}
		}, false},
		"owner with no log": {alice, func(*replica.OpenRequest) {}, true},
		"owner as ever":     {alice, func(o *replica.OpenRequest) { o.Log = 9 }, false},
	} {
		e := newCopyFixture(t, false, nil)
		if c.by.id == carol.id {
			takenBy(t, carol, e.dht)
		}
		l, sealed, err := e.cfg.Leases.Refresh(t.Context(), subnetA)
		if err != nil {
			t.Fatal(err)
		}
		o := replica.OpenRequest{Subnet: subnetA, Epoch: l.Epoch, Lease: sealed, Log: 17}
		c.change(&o)
		err = e.policy.AcceptCopy(c.by.id, o)
		if _, marked := e.salvager.copies.get(subnetA); marked != c.marked ||
			errors.Is(err, replica.ErrLater) != c.marked || !c.marked && err != nil {
			t.Errorf("%s: marked %v, %v", name, marked, err)
		}
		if !c.marked {
			continue
		}
		e.run()
		e.salvaged(t)
		if err := e.policy.AcceptCopy(c.by.id, o); err != nil {
			t.Errorf("%s: %v, and nothing is here", name, err)
		}
	}
	h := replica.LocalCopy{Epoch: 3}
	if !passed(h, lease.Lease{Epoch: 4, Grant: []byte{1}}) ||
		passed(h, lease.Lease{Epoch: 5, Grant: []byte{1}}) || passed(h, lease.Lease{Epoch: 4}) {
		t.Error("what the owner gave away itself is not told apart")
	}
}
