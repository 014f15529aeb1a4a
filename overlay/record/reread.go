package record

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/internal/backoff"
)

// A record that came to this peer while other peers were unreachable may have a rival there. It
// is therefore read again several times after it came, and whenever a peer is back:
//
//	it came -----------------+
//	a peer is heard again  --+-> armed --4 s--> read --30 s--> read --90 s--> read --5 min--> read
//
// The times are counted from when it was armed. After the last read nothing is planned.
var readAfter = [...]time.Duration{firstReread, 30 * time.Second, 90 * time.Second,
	5 * time.Minute}

const (
	firstReread = 4 * time.Second
	// RearmAfter is how long Rereads are left as they are: peers come back one after another.
	RearmAfter = 15 * time.Second
	// ReadsPerTick bounds the records that are read again in one round of the caller.
	ReadsPerTick = 25

	// ReadTimeout bounds the time of one read.
	ReadTimeout = 20 * time.Second

	readsAtOnce = 8
)

// Rereads plans when one record is read again. The zero value plans nothing. It is not safe for
// concurrent use.
type Rereads struct {
	armed time.Time // zero: never
	at    time.Time // of the next read; zero: none is planned
	reads int       // since it was armed
}

// Arm plans all reads again, from now on.
func (r *Rereads) Arm(now time.Time) {
	*r = Rereads{armed: now, at: now.Add(backoff.Later(readAfter[0]))}
}

// Rearm is Arm unless that was called less than RearmAfter ago. It reports whether it did.
func (r *Rereads) Rearm(now time.Time) bool {
	if now.Sub(r.armed) <= RearmAfter {
		return false
	}
	r.Arm(now)
	return true
}

// Planned reports whether there is a next read.
func (r *Rereads) Planned() bool { return !r.at.IsZero() }

// Due reports whether the next read is due.
func (r *Rereads) Due(now time.Time) bool { return r.Planned() && !r.at.After(now) }

// Begin returns the number of the read that begins now, from 0, and plans the next one.
func (r *Rereads) Begin() (n int) {
	n = r.reads
	r.at = time.Time{}
	if r.reads++; r.reads < len(readAfter) {
		r.at = r.armed.Add(backoff.Later(readAfter[r.reads]))
	}
	return n
}

// Reread calls read for each key, for several at once and each with a time limit. It returns
// when all have returned.
func Reread[K any](ctx context.Context, keys []K, read func(context.Context, K)) {
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	for _, k := range keys {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
			defer cancel()
			read(ctx, k)
			return nil
		})
	}
	_ = g.Wait() // there are none
}
