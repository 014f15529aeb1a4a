package owner

import (
	"errors"
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/shadow"
	"peerd/store"
)

// soon makes waits for the dead short.
func soon(c *Config) {
	c.Times = Times{Silence: time.Millisecond, Spread: 1, Orphan: 20 * time.Millisecond}
}

// salvaged checks that all that only the copy knew is put aside, and the copy gone.
func (e *estate) salvaged(t *testing.T) {
	t.Helper()
	until(t, "the copy is given up", func() bool { _, held := e.replicas.Copy(subnetA); return !held })
	if e.Live(subnetA) {
		t.Error("it is owned")
	}
	if len(e.routed) != heldURLs || e.deferred["else.test"] != 1 {
		t.Errorf("%d URLs and %v are put aside", len(e.routed), e.deferred)
	}
}

// Somebody without a copy took over while the one with a copy was away.
func TestOutdatedCopyIsSalvaged(t *testing.T) {
	e := newEstate(t, false, soon)
	takenBy(t, carol, e.dht)
	e.run()
	e.salvaged(t)
	if e.witness.asked() != 0 {
		t.Error("asked for votes on another's subnet")
	}
}

func TestUnfinishedCopyIsSalvaged(t *testing.T) {
	e := newEstate(t, false, soon)
	e.held.Complete = false
	e.replicas.held[subnetA] = e.held
	e.run()
	e.salvaged(t)
}

// An old copy is better than none, once nobody can have a newer one.
func TestOldCopyOfTheDead(t *testing.T) {
	e := newEstate(t, false, soon)
	e.held.Heard = e.heard.Add(-time.Hour)
	e.replicas.held[subnetA] = e.held
	e.run()
	e.taken(t, store.PhaseOwned)
}

// A copy is not overwritten by an owner who may know less.
func TestWillingToLoseNothing(t *testing.T) {
	for name, c := range map[string]struct {
		by     someone // alice has lost her disk, or carol has taken over
		change func(o *shadow.Open)
		wreck  bool
	}{
		"begun anew":        {carol, func(*shadow.Open) {}, true},
		"without our last":  {carol, func(o *shadow.Open) { o.Base = store.TailPos{Log: 9, Seq: 3} }, true},
		"on our copy":       {carol, func(o *shadow.Open) { o.Base = store.TailPos{Log: 9, Seq: 4} }, false},
		"on a later one":    {carol, func(o *shadow.Open) { o.Base = store.TailPos{Log: 9, Seq: 7} }, false},
		"owner with no log": {alice, func(*shadow.Open) {}, true},
		"owner as ever":     {alice, func(o *shadow.Open) { o.Log = 9 }, false},
	} {
		e := newEstate(t, false, nil)
		if c.by.id == carol.id {
			takenBy(t, carol, e.dht)
		}
		l, sealed, err := e.cfg.Leases.Refresh(t.Context(), subnetA)
		if err != nil {
			t.Fatal(err)
		}
		o := shadow.Open{Subnet: subnetA, Epoch: l.Epoch, Lease: sealed, Log: 17}
		c.change(&o)
		err = e.Willing(c.by.id, o)
		if _, marked := e.wrecks[subnetA]; marked != c.wreck || errors.Is(err, shadow.ErrLater) != c.wreck || !c.wreck && err != nil {
			t.Errorf("%s: marked %v, %v", name, marked, err)
		}
		if !c.wreck {
			continue
		}
		e.run()
		e.salvaged(t)
		if err := e.Willing(c.by.id, o); err != nil {
			t.Errorf("%s: %v, and nothing is here", name, err)
		}
	}
	h := shadow.Held{Epoch: 3}
	if !passed(h, lease.Lease{Epoch: 4, Grant: []byte{1}}) || passed(h, lease.Lease{Epoch: 5, Grant: []byte{1}}) || passed(h, lease.Lease{Epoch: 4}) {
		t.Error("what the owner gave away itself is not told apart")
	}
}
