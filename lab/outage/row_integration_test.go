//go:build integration

package outage

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/faulty"
)

// command is what runs in a row.
type command string

const (
	crawl command = "crawl" // peerd crawl, alone
	run   command = "run"   // peerd run, one or more peers
)

// A row is one outage and what must follow from it.
type row struct {
	name  string
	known string // why it is not met yet; "" if it must be met
	long  bool   // only with -long

	command command
	peers   int           // of run; 0 is one
	local   bool          // they run on the host of the sites
	gap     time.Duration // between requests to a site; 0 is 50 ms
	args    []string      // of crawl
	profile string        // lines that are added to the profile
	config  string        // lines that are added to the [crawl] settings

	sites []*faulty.Site
	setup func(w *world) // before the peers start

	// The outage begins with fail, after this number of pages was fetched, and ends with
	// world.mend. Without fail there is none.
	after       int
	fail        func(w *world)
	lasts, full time.Duration           // without and with -long; full of 0 is lasts
	during      func(w *world) []string // checks in the outage, after three quarters of its time

	settle time.Duration // most for the rest of the crawl; 0 is patience
	want   want
}

// want is what must follow.
type want struct {
	missing  int           // most pages that are not fetched
	repeats  int           // complete answers with a page that had been fetched
	requests int           // most requests in all; 0 is not judged
	resume   time.Duration // longest time from the end of the outage to the first request
	within   time.Duration // longest time from the first to the last page; 0 is not judged
	exit     int           // status of crawl
	says     []string      // regular expressions for what the peer prints
	again    bool          // the same crawl, after the outage, fetches what is missing
	check    func(w *world) []string
}

func (r *row) lasting() time.Duration {
	if *long && r.full > 0 {
		return r.full
	}
	return r.lasts
}

func (r *row) settling() time.Duration { return max(r.settle, patience) }

// limit is the longest time of a row.
func (r *row) limit() time.Duration { return r.lasting() + 2*r.settling() + patience }

// play runs a row and returns its faults.
func play(ctx context.Context, t *testing.T, r row) []string {
	w, err := newWorld(ctx, t, &r)
	if err != nil {
		return []string{err.Error()}
	}
	defer w.close()
	if r.setup != nil {
		r.setup(w)
	}
	if r.fail != nil && r.after == 0 {
		r.fail(w)
	}
	began := time.Now()
	if err := w.start(); err != nil {
		return []string{err.Error()}
	}
	if r.fail != nil {
		if r.after > 0 {
			if !w.wait(r.settling(), func() bool { return w.web.Fetched() >= r.after }) {
				return append(w.faults, fmt.Sprintf("only %d pages before the outage\n%s",
					w.web.Fetched(), w.output()))
			}
			r.fail(w)
			began = time.Now()
		}
		w.outage(began)
	}
	w.finish()
	if r.command == crawl && r.want.again {
		w.again()
	}
	return w.judge()
}

// outage waits until the outage that began at a time is over, or nothing runs in it any more.
func (w *world) outage(began time.Time) {
	end := began.Add(w.row.lasting())
	over := func() bool { return w.row.command == crawl && !w.peers[0].running() }
	if w.row.during != nil {
		w.wait(time.Until(end)*3/4, over)
		w.faults = append(w.faults, w.row.during(w)...)
	}
	w.wait(time.Until(end), over)
	w.fetchedBefore = w.web.Fetched()
	w.mend()
	w.mended = time.Now()
}

// judge returns what is not as the row wants it.
func (w *world) judge() []string {
	want, log := w.row.want, w.web.Log()
	fetched, all := w.web.Fetched(), w.web.Pages()
	w.t.Logf("%d of %d pages, %d repeated, %d requests, %d connections, %d queries", fetched, all,
		w.web.Repeats(), len(log), w.web.Conns(), len(w.names.Queries()))
	if fetched+want.missing < all {
		w.fault("%d of %d pages were fetched, want %d; missing %q", fetched, all, all-want.missing,
			w.web.Missing(5))
	}
	if n, limit := w.web.Repeats(), want.repeats+w.unread(); n > limit {
		w.fault("%d pages were fetched again, want at most %d", n, limit)
	}
	if want.requests > 0 && len(log) > want.requests {
		w.fault("%d requests, want at most %d", len(log), want.requests)
	}
	w.judgeTimes(log)
	if w.row.command == crawl && w.exit != want.exit {
		w.fault("the exit status was %d, want %d", w.exit, want.exit)
	}
	said := w.output()
	for _, pattern := range want.says {
		if !regexp.MustCompile(pattern).MatchString(said) {
			w.fault("peerd did not print %q", pattern)
		}
	}
	if want.check != nil {
		w.faults = append(w.faults, want.check(w)...)
	}
	if len(w.faults) > 0 {
		w.t.Logf("peerd printed:\n%s", clip(said))
	}
	return w.faults
}

// judgeTimes judges when requests came.
func (w *world) judgeTimes(log []faulty.Hit) {
	slack := w.slack()
	if limit := w.row.want.resume; limit > 0 && w.fetchedBefore < w.web.Pages() {
		var first time.Time
		for _, h := range log {
			if h.At.After(w.mended) && (first.IsZero() || h.At.Before(first)) {
				first = h.At
			}
		}
		took := first.Sub(w.mended).Round(time.Millisecond)
		switch {
		case first.IsZero():
			w.fault("no request came after the outage")
		case took > limit+slack:
			w.fault("the first request came %v after the outage, want at most %v", took, limit)
		default:
			w.t.Logf("resumed %v after the outage; a busy machine may add %v", took, slack)
		}
	}
	var first, last time.Time
	for _, h := range log {
		if h.Page && h.Complete {
			if first.IsZero() {
				first = h.At
			}
			last = h.End
		}
	}
	took := last.Sub(first).Round(time.Millisecond)
	w.t.Logf("pages came within %v", took)
	if limit := w.row.want.within; limit > 0 && took > limit+slack {
		w.fault("the pages were fetched in %v, want at most %v", took, limit)
	}
}

// slack returns what a busy machine may add to a time that is judged. Peers stall with this
// process; without -long, they may also get less time than it does.
func (w *world) slack() time.Duration {
	stalled := 2 * time.Duration(w.stall.Load())
	if *long {
		return stalled
	}
	return stalled + 5*time.Second
}

// unread returns how many answers may have been sent that no peer has read when the network fails:
// one of each site in rows that allow for such answers, and no more than they allow with -long,
// which has a quiet machine.
func (w *world) unread() int {
	if *long || w.row.want.repeats == 0 {
		return 0
	}
	return len(w.row.sites)
}

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// clip returns the beginning and the end of a long text.
func clip(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > 60 {
		lines = append(append(lines[:20:20], "..."), lines[len(lines)-40:]...)
	}
	return strings.Join(lines, "\n")
}
