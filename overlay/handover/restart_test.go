package handover

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"peerd/store"
)

// If either side stops at a step and restarts with what is on its disk, one peer owns the
// subnet, with all data. See also TestRestartAtEachStepAll.
func TestRestartAtEachStep(t *testing.T) { testRestartAtEachStep(t, 12) }

func testRestartAtEachStep(t *testing.T, stride int) {
	a, b := pair(t)
	for i, kills := range []string{"owner", "successor", "both"} {
		for n, done := 1+i, false; !done; n += stride {
			done = testKilledAt(t, a, b, n, kills)
			if t.Failed() {
				t.Fatalf("failed with %s stopped at %d", kills, n)
			}
		}
	}
}

// testKilledAt breaks the connection at the n-th operation and restarts the named sides. It
// returns true if there were fewer operations.
func testKilledAt(t *testing.T, a, b host.Host, n int, kills string) bool {
	what := fmt.Sprintf("%s stopped at %d", kills, n)
	odir, hdir := t.TempDir(), t.TempDir()
	c := &flakyHost{Host: a, left: n}
	o, he := newOwner(t, open(t, odir), c), &fakeSuccessor{db: open(t, hdir)}
	_, stop := serve(t, b, he)
	fill(t, o.db)
	want := contents(t, o.db)
	err := o.handOver(t, b.ID())
	cut := c.wasCut()
	if err != nil && kills != "successor" {
		o.stop()
		if err := o.db.Close(); err != nil {
			t.Fatal(err)
		}
		o = newOwner(t, open(t, odir), c)
	}
	if err != nil && kills != "owner" {
		stop()
		if err := he.db.Close(); err != nil {
			t.Fatal(err)
		}
		he = &fakeSuccessor{db: open(t, hdir)}
		_, stop = serve(t, b, he)
	}
	invariant(t, what, o.db, he.db, err)
	c.repair(1 << 30)
	for began := time.Now(); err != nil; {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("%s: Send() = %v for a minute, want nil", what, err)
		}
		err = o.handOver(t, b.ID())
		invariant(t, what, o.db, he.db, err)
	}
	checkSame(t, contents(t, he.db), want)
	if left := contents(t, o.db); len(left) > 0 {
		t.Errorf("%s: the owner has %d hosts, want none", what, len(left))
	}
	if p := phase(t, he.db); p != store.PhaseOwned {
		t.Errorf("%s: phase = %v at the successor, want %v", what, p, store.PhaseOwned)
	}
	stop()
	o.stop()
	if err := errors.Join(o.db.Close(), he.db.Close()); err != nil {
		t.Error(err)
	}
	return !cut
}
