package outbox

import (
	"context"
	"log/slog"
	"time"

	"peerd/store"
)

// NameError is the error of a Resolver about a host with a name that does not resolve.
type NameError struct {
	// NotFound reports that an answer says that there is no such host. Otherwise there was no
	// answer, or it was a failure.
	NotFound bool
	// Began is when the lookup began; in the past if the answer was cached.
	Began time.Time
	// Err describes the failure.
	Err error
}

// Error returns the text of Err.
func (e *NameError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NameError) Unwrap() error { return e.Err }

// nameTries is the minimum number of lookups before a host is given up.
const nameTries = 3

// nameState is the state of a host's name since the last successful lookup. The zero value is that
// of a name that resolves.
type nameState struct {
	since time.Time // when the first failed lookup began; zero if none failed
	fails int       // lookups without an answer, or with a failure

	// Lookups with the answer that there is no such host, and when the first and last of them
	// began.
	denials             int
	firstDenied, denied time.Time
}

// verdict is what to do after a failed lookup: try again after wait, or give up.
type verdict struct {
	wait   time.Duration
	giveUp bool
}

// failed takes in the failure of a lookup. One that began before since says nothing, because the
// network of this peer was down. An answer that was cached before counts once.
func (s *nameState) failed(err *NameError, since, now time.Time, c Config) verdict {
	if err.Began.Before(since) {
		return verdict{wait: c.nameBackoff(0)}
	}
	if s.since.IsZero() {
		s.since = err.Began
	}
	if err.NotFound {
		if s.denials == 0 {
			s.firstDenied = err.Began
		}
		if s.denials == 0 || err.Began.After(s.denied) {
			s.denials++
			s.denied = err.Began
		}
		return verdict{
			wait:   max(c.NotFoundSpan/(nameTries-1), c.nameBackoff(0)),
			giveUp: s.denials >= nameTries && s.denied.Sub(s.firstDenied) >= c.NotFoundSpan,
		}
	}
	s.fails++
	return verdict{
		wait:   c.nameBackoff(s.fails - 1),
		giveUp: s.fails >= nameTries && now.Sub(s.since) >= c.NamePatience,
	}
}

// nameFailed handles a failed lookup. If it was the last one, the URLs of the host are given up.
func (f *Forwarder) nameFailed(e *entry, err *NameError) error {
	now := time.Now()
	var v verdict
	var s nameState
	f.withTable(func(t *hostTable) {
		v = e.lookups.failed(err, f.backOnline, now, f.cfg)
		s = e.lookups
		if !v.giveUp {
			t.resolveAfter(e, v.wait, now)
		}
	})
	if !v.giveUp {
		f.log.Debug("failed to look up name", "host", e.name, "wait", v.wait, "err", err)
		return nil
	}
	return f.giveUp(e, store.GivenUp{
		Outcome: store.OutcomeDNS, Error: store.ErrorText(err), First: s.since,
		Tries: s.fails + s.denials,
	})
}

// maxGivenUp bounds the URLs given up in one transaction: each leaves a record with its URL.
const maxGivenUp = 250

// giveUp gives up all URLs of a host: they leave a record, from which they can be tried again, and
// are counted as failed. At is set.
func (f *Forwarder) giveUp(e *entry, g store.GivenUp) error {
	total := 0
	for {
		adds := f.adds(e)
		var part []store.Pending
		err := f.cfg.DB.View(func(tx *store.Tx) error {
			return tx.PendingOf(e.name, func(p store.Pending) (bool, error) {
				part = append(part, p)
				return len(part) < maxGivenUp, nil
			})
		})
		if err != nil {
			return err
		}
		if len(part) == 0 {
			level := slog.LevelWarn
			if g.Outcome == store.OutcomeRefused { // as the operator wants it
				level = slog.LevelInfo
			}
			f.log.Log(context.Background(), level, "gave up URLs of a host", "host", e.name,
				"urls", total, "err", g.Error)
			f.withTable(func(t *hostTable) {
				e.lookups, e.fails = nameState{}, 0
				t.setCount(e.name, adds, 0, time.Now())
				t.resolveAfter(e, 0, time.Now())
			})
			return nil
		}
		n, err := f.giveUpPart(part, g)
		if err != nil {
			return err
		}
		total += n
		f.withTable(func(t *hostTable) { t.removed(e.name, n, time.Now()) })
	}
}

// giveUpPart gives up those of the URLs that are still pending, in one transaction.
func (f *Forwarder) giveUpPart(part []store.Pending, g store.GivenUp) (n int, err error) {
	g.At = time.Now()
	if g.First.IsZero() {
		g.First = g.At
	}
	for _, p := range part { // before, or they are taken for new when they are sent again meanwhile
		f.dropped.Add(p.URL.Digest(), time.Now())
	}
	err = f.cfg.DB.Update(func(tx *store.Tx) error {
		n = 0
		for _, p := range part {
			pending, err := tx.HasPending(p.URL)
			if err != nil {
				return err
			}
			if !pending {
				continue
			}
			if err := tx.GiveUpPending(p, g); err != nil {
				return err
			}
			n++
		}
		tx.CountGivenUp(g.Outcome, int64(n))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
