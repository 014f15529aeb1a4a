package owner

import (
	"errors"
	"fmt"
	"time"

	"peerd/overlay/witness"
)

// Times are those of shadows and takeovers. What is zero has its default.
type Times struct {
	// Silence is how long an owner must not have been heard before its shadows
	// ask for votes. 20 s: that is also what its witnesses promise it.
	Silence time.Duration
	// Spread is what shadows wait longer, each by its own part of it, so that they
	// do not ask at once. 4 s.
	Spread time.Duration
	// Orphan is how long an owner must not have been heard before it is concluded that
	// no shadow of it takes over: then copies that never were complete are salvaged, and
	// a quarter of it later who has URLs for a subnet begins it anew that was its
	// owner's for too short a time to have a shadow. 2 min.
	Orphan time.Duration
	// Anew is the same for a subnet that had shadows: then those with an old copy may
	// take over, and a quarter of it later those begin anew who have no copy. All are away
	// at once when they are on the other side of a cut, and come back with what they
	// have fetched; so this is longer than most cuts. 15 min.
	Anew time.Duration
	// Lost is how long a shadow may be out of reach, or owe an answer, before another
	// takes its place. 25 s: so that the other has a copy within 30 s.
	Lost time.Duration
	// First is how long URLs for a subnet of ours are asked to wait for its first
	// shadow. 10 s.
	First time.Duration
	// Flush is how long Safe waits for the shadows. 2 s.
	Flush time.Duration
	// Brink is how much of this peer's right is left when its witnesses have not been
	// heard for longer than their heartbeats take: from then on a page is fetched only
	// where the shadows have those before it. 8.5 s of the 15 that witness.Config.Hold
	// gives every 5; it has to be well below what Hold leaves between two heartbeats.
	Brink time.Duration
	// Revive is how long after a witness has voted a subnet of ours away the DHT is
	// asked once more, and the subnet is ours again if it is not another's.
	// witness.ReviveAfter.
	Revive time.Duration
}

// DefaultTimes returns what fits the Internet.
func DefaultTimes() Times {
	return Times{
		Silence: 20 * time.Second, Spread: 4 * time.Second, Orphan: 2 * time.Minute, Anew: 15 * time.Minute, Lost: 25 * time.Second, First: 10 * time.Second,
		Flush: 2 * time.Second, Brink: 8500 * time.Millisecond, Revive: witness.ReviveAfter,
	}
}

// withDefaults fills in what is left zero.
func (t Times) withDefaults() Times {
	d := DefaultTimes()
	for _, f := range []struct{ to, from *time.Duration }{
		{&t.Silence, &d.Silence}, {&t.Spread, &d.Spread}, {&t.Orphan, &d.Orphan}, {&t.Anew, &d.Anew}, {&t.Lost, &d.Lost}, {&t.First, &d.First},
		{&t.Flush, &d.Flush}, {&t.Brink, &d.Brink}, {&t.Revive, &d.Revive},
	} {
		if *f.to == 0 {
			*f.to = *f.from
		}
	}
	return t
}

// validate names every fault of t.
func (t Times) validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{
		"Silence": t.Silence, "Spread": t.Spread, "Orphan": t.Orphan, "Anew": t.Anew, "Lost": t.Lost, "First": t.First, "Flush": t.Flush,
		"Brink": t.Brink, "Revive": t.Revive,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("owner: Times.%s is %v, want 0 or more", name, d))
		}
	}
	return errors.Join(errs...)
}
