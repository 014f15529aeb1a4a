package handover

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"

	"peerd/store"
)

// Either side dies at any step, and comes back with what is on its disk: the subnet
// is at one peer, whole.
func TestKilledAtEachStep(t *testing.T) {
	a, b := pair(t)
	stride := 1
	if testing.Short() {
		stride = 5
	}
	for i, kills := range []string{"owner", "heir", "both"} {
		for n, done := 1+i, false; !done; n += stride {
			done = killedAt(t, a, b, n, kills)
			if t.Failed() {
				t.Fatalf("%s killed at %d", kills, n)
			}
		}
	}
}

// killedAt breaks the line at the n-th operation and kills; it is true when there
// were not so many.
func killedAt(t *testing.T, a, b host.Host, n int, kills string) bool {
	what := fmt.Sprintf("%s killed at %d", kills, n)
	odir, hdir := t.TempDir(), t.TempDir()
	c := &cutter{Host: a, left: n}
	o, he := owns(t, open(t, odir), c), &heir{db: open(t, hdir)}
	_, stop := serve(t, b, he)
	fill(t, o.db)
	want := contents(t, o.db)
	err := o.leave(t, b.ID())
	cut := c.wasCut()
	if err != nil && kills != "heir" {
		o.stop()
		if err := o.db.Close(); err != nil {
			t.Fatal(err)
		}
		o = owns(t, open(t, odir), c)
	}
	if err != nil && kills != "owner" {
		stop()
		if err := he.db.Close(); err != nil {
			t.Fatal(err)
		}
		he = &heir{db: open(t, hdir)}
		_, stop = serve(t, b, he)
	}
	invariant(t, what, o.db, he.db, err)
	c.mend(1 << 30)
	for begun := time.Now(); err != nil; {
		if time.Since(begun) > time.Minute {
			t.Fatalf("%s: never ends: %v", what, err)
		}
		err = o.leave(t, b.ID())
		invariant(t, what, o.db, he.db, err)
	}
	same(t, contents(t, he.db), want)
	if left := contents(t, o.db); len(left) > 0 {
		t.Errorf("%s: the owner still has %d hosts", what, len(left))
	}
	if p := phase(t, he.db); p != store.PhaseOwned {
		t.Errorf("%s: %v at the heir", what, p)
	}
	stop()
	o.stop()
	if err := errors.Join(o.db.Close(), he.db.Close()); err != nil {
		t.Error(err)
	}
	return !cut
}
