package frontier

import (
	"errors"
	"time"

	"peerd/store"
)

// forsaken is how long after its host was given up a page is visited again.
const forsaken = 7 * 24 * time.Hour

// Forsake gives a job back for which a request was sent, and takes all entries
// of its host out of the queue, each counted as failed, at most n in one
// transaction. It returns how many. Their URLs stay seen, and are not asked
// again; pages that were to be visited again are, after a week if nobody has
// planned that. What is found at the host later is fetched.
func (f *Frontier) Forsake(j Job, n int) (dropped int64, err error) {
	var last []byte
	var due time.Time
	for more := true; more && err == nil; {
		var gone []store.Entry
		err = f.cfg.DB.Update(func(tx *store.Tx) (err error) {
			gone, more, err = some(tx, j.Host, last, n)
			for _, e := range gone {
				if err == nil {
					err = tx.Remove(j.Host, e)
				}
				if err == nil && e.Kind.Revisit() {
					due, err = postpone(tx, e.URL)
				}
			}
			tx.Count(store.Counters{Failed: int64(len(gone))})
			return err
		})
		if err == nil && len(gone) > 0 {
			dropped += int64(len(gone))
			last = gone[len(gone)-1].Key
		}
	}
	f.mu.Lock()
	f.forgetLocked(j, dropped)
	f.mu.Unlock()
	if !due.IsZero() {
		f.SetDue(j.Host, due, true)
	}
	f.release(j, outcome{asked: true, gap: f.cfg.Gap})
	return dropped, err
}

// some returns entries of a host behind a key, as many as n removals make; a
// revisit writes four times as much.
func some(tx *store.Tx, host string, after []byte, n int) (es []store.Entry, more bool, err error) {
	err = tx.Queue(host, after, func(e store.Entry) (bool, error) {
		es = append(es, e)
		n--
		if e.Kind.Revisit() {
			n -= 3
		}
		more = n > 0
		return more, nil
	})
	return es, len(es) > 0 && !more, err
}

// postpone puts a page back that was to be visited now, unless a later visit is
// planned already.
func postpone(tx *store.Tx, u store.URL) (due time.Time, err error) {
	v, err := tx.Visit(u)
	if errors.Is(err, store.ErrNotFound) {
		return due, nil
	}
	if err != nil || v.Due.After(time.Now()) {
		return v.Due, err
	}
	v.Due = time.Now().Add(forsaken)
	return v.Due, tx.PutVisit(v)
}

// forgetLocked takes entries that have left the queue out of the counts.
func (f *Frontier) forgetLocked(j Job, n int64) {
	h := j.host
	h.window.reset()
	h.pending -= n
	if f.hosts[h.name] == h {
		f.pending -= n
	}
}

// Due returns our hosts of which a page is to be visited again at now. Whoever
// has looked after one of them says with SetDue when the next is.
func (f *Frontier) Due(now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []string
	for name, h := range f.hosts {
		if !h.dueAt.IsZero() && !h.dueAt.After(now) && !h.srv.sub.paused {
			due = append(due, name)
			h.dueNew = time.Time{}
		}
	}
	return due
}

// SetDue notes when the first page of a host is to be visited again; the zero
// time means never. With early, a time that is known already stays if it is
// sooner. Without, what was noted with early since Due named the host stays if
// it is sooner: who looked may have looked before.
func (f *Frontier) SetDue(host string, at time.Time, early bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	switch {
	case h == nil:
	case early:
		h.dueAt, h.dueNew = sooner(h.dueAt, at), sooner(h.dueNew, at)
	default:
		h.dueAt = sooner(at, h.dueNew)
	}
}

// sooner returns the earlier of two times, of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
