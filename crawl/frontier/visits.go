package frontier

import "time"

// Due returns our hosts with a page that is due at now. After queueing the pages of a host,
// the caller must call SetDue with the time of the next one.
func (f *Frontier) Due(now time.Time) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var due []string
	for name, h := range f.hosts {
		if !h.dueAt.IsZero() && !h.dueAt.After(now) && !h.srv.sub.paused {
			due = append(due, name)
			h.dueEarly = time.Time{}
		}
	}
	return due
}

// SetDue sets when the first page of a host is due; the zero time means never. With early,
// an earlier known time is kept. Without early, only an earlier time that was set with
// early since Due returned the host is kept, because the caller may not have seen it.
func (f *Frontier) SetDue(host string, at time.Time, early bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[host]
	switch {
	case h == nil:
	case early:
		h.dueAt, h.dueEarly = earlier(h.dueAt, at), earlier(h.dueEarly, at)
	default:
		h.dueAt = earlier(at, h.dueEarly)
	}
}

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
