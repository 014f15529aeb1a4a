package crawl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"peerd/store"
)

// The reports of the tests.
var (
	answered    = store.FetchReport{Outcome: store.OutcomeHTTPError, Status: http.StatusNotFound}
	refused     = store.FetchReport{Outcome: store.OutcomeConnect, Error: "connection refused"}
	brokenOff   = store.FetchReport{Outcome: store.OutcomeReset, Status: http.StatusOK}
	busy        = store.FetchReport{Outcome: store.OutcomeThrottled, Status: 503}
	gateway     = store.FetchReport{Outcome: store.OutcomeHTTPError, Status: http.StatusBadGateway}
	certificate = store.FetchReport{Outcome: store.OutcomeTLS, Error: "certificate expired"}
	unsent      = store.FetchReport{Outcome: store.OutcomeRobotsDenied}
)

// askLater is busy with Retry-After.
func askLater(d time.Duration) store.FetchReport {
	r := busy
	r.RetryAfter = d
	return r
}

// Each row is a sequence of requests, each at the time at which the host may be asked again.
func TestHostStates(t *testing.T) {
	cfg := Config{
		BackOff: 2 * time.Second, MaxBackOff: 30 * time.Second, MaxThrottle: time.Minute,
		Patience: 10 * time.Minute,
	}
	repeat := func(n int, r store.FetchReport) (all []store.FetchReport) {
		for range n {
			all = append(all, r)
		}
		return all
	}
	for name, tc := range map[string]struct {
		reports   []store.FetchReport
		state     store.HostState
		failures  int
		from, max int // seconds until the next try
	}{
		"answered":         {repeat(1, answered), store.HostAnswering, 0, 0, 0},
		"nothing sent":     {repeat(1, unsent), store.HostAnswering, 0, 0, 0},
		"refused":          {repeat(1, refused), store.HostFailing, 1, 2, 3},
		"refused twice":    {repeat(2, refused), store.HostFailing, 2, 4, 6},
		"refused nine":     {repeat(9, refused), store.HostFailing, 9, 22, 30},
		"refused for long": {repeat(40, refused), store.HostGivenUp, 40, 30, 30},
		"broken":           {repeat(1, brokenOff), store.HostFailing, 1, 0, 0},
		"broken twice":     {repeat(2, brokenOff), store.HostFailing, 2, 4, 6},
		"busy":             {repeat(1, busy), store.HostThrottled, 1, 2, 3},
		"gateway":          {repeat(1, gateway), store.HostThrottled, 1, 2, 3},
		"busy nine times":  {repeat(9, busy), store.HostThrottled, 9, 45, 60},
		"asks to wait":     {repeat(1, askLater(5*time.Minute)), store.HostThrottled, 1, 300, 300},
		"asks for too long": {repeat(1, askLater(time.Hour)), store.HostGivenUp, 1, 3600,
			3600},
		"refused, busy":     {append(repeat(1, refused), busy), store.HostThrottled, 2, 4, 6},
		"refused, answered": {append(repeat(5, refused), answered), store.HostAnswering, 0, 0, 0},
		"given up, answered": {append(repeat(40, refused), answered), store.HostAnswering, 0,
			0, 0},
		"busy, broken":       {append(repeat(1, busy), brokenOff), store.HostFailing, 2, 4, 6},
		"certificate":        {repeat(3, certificate), store.HostFailing, 3, 2, 4}, // the last try
		"certificate, again": {repeat(5, certificate), store.HostGivenUp, 5, 30, 30},
		"refused, certificate": {append(repeat(7, refused), certificate), store.HostFailing, 8,
			22, 30},
	} {
		t.Run(name, func(t *testing.T) {
			var h store.Health
			now := time.Now()
			begin := now
			for _, rep := range tc.reports {
				if h.NextTry.After(now) {
					now = h.NextTry
				}
				h = cfg.nextHealth(h, rep, now, now)
			}
			if h.State != tc.state || h.Failures != tc.failures {
				t.Errorf("host is %v after %d failures in %v, want %v after %d",
					h.State, h.Failures, now.Sub(begin), tc.state, tc.failures)
			}
			wait := time.Duration(0)
			if !h.NextTry.IsZero() {
				wait = h.NextTry.Sub(now)
			}
			if wait < time.Duration(tc.from)*time.Second ||
				wait > time.Duration(tc.max)*time.Second {
				t.Errorf("next try in %v, want %v to %v seconds", wait, tc.from, tc.max)
			}
			last := tc.reports[len(tc.reports)-1]
			if tc.failures > 0 && (h.Outcome != last.Outcome || h.Error != last.Error) {
				t.Errorf("last failure is %v %q, want %v %q", h.Outcome, h.Error, last.Outcome,
					last.Error)
			}
		})
	}
}

// The last try of a host comes when its patience ends, at most one first back-off later.
func TestLastTry(t *testing.T) {
	cfg := Config{
		BackOff: 2 * time.Second, MaxBackOff: time.Hour, MaxThrottle: 24 * time.Hour,
		Patience: 72 * time.Hour,
	}
	for name, rep := range map[string]store.FetchReport{"refused": refused, "busy": busy} {
		for range 20 { // the waits are random
			begin := time.Now()
			var h store.Health
			now, last := begin, begin
			for h.State != store.HostGivenUp {
				if h = cfg.nextHealth(h, rep, now, now); h.State != store.HostGivenUp {
					last, now = now, h.NextTry
				}
			}
			if over := now.Sub(begin) - cfg.Patience; over < 0 || over > cfg.BackOff {
				t.Fatalf("%s: given up %v after the patience, want at most %v", name, over,
					cfg.BackOff)
			}
			if gap := now.Sub(last); gap < cfg.BackOff {
				t.Fatalf("%s: the last two tries are %v apart, want %v", name, gap, cfg.BackOff)
			}
		}
	}
}

// A wait that a host asked for is not ended by a request that was in progress, nor by an outage.
func TestAskedWait(t *testing.T) {
	cfg := Config{
		BackOff: 2 * time.Second, MaxBackOff: 30 * time.Second, MaxThrottle: time.Minute,
		Patience: 10 * time.Minute,
	}
	now := time.Now()
	until := now.Add(5 * time.Minute)
	h := cfg.nextHealth(store.Health{}, askLater(5*time.Minute), now, now)
	for _, rep := range []store.FetchReport{refused, brokenOff, busy} {
		if got := cfg.nextHealth(h, rep, now, now.Add(time.Second)); !got.NextTry.Equal(until) ||
			!got.AsksToWait(until.Add(-1)) || got.AsksToWait(until) {
			t.Errorf("after %v: %+v, want no request for five minutes", rep.Outcome, got)
		}
	}
	for _, since := range []time.Time{now.Add(-time.Minute), now.Add(time.Minute)} {
		if got := forgive(h, since, now.Add(2*time.Minute)); !got.NextTry.Equal(until) {
			t.Errorf("after an outage since %v: %+v, want no request for five minutes", since, got)
		}
	}
}

// A long time without a request does not count towards the patience, a short one does.
func TestIdleHost(t *testing.T) {
	cfg := Config{
		BackOff: time.Second, MaxBackOff: time.Minute, MaxThrottle: time.Minute,
		Patience: 10 * time.Minute,
	}
	for _, tc := range []struct {
		idle time.Duration
		want store.HostState
	}{
		{9 * time.Minute, store.HostFailing}, {4 * time.Minute, store.HostFailing},
		{240 * time.Hour, store.HostFailing},
	} {
		now := time.Now()
		h := cfg.nextHealth(store.Health{}, refused, now, now)
		now = h.NextTry.Add(tc.idle)
		if h = cfg.nextHealth(h, refused, now, now); h.State != tc.want {
			t.Errorf("after %v without a request: %v, want %v", tc.idle, h.State, tc.want)
		}
	}
	now := time.Now()
	h := cfg.nextHealth(store.Health{}, refused, now, now)
	for range 3 {
		now = h.NextTry.Add(4 * time.Minute)
		h = cfg.nextHealth(h, refused, now, now)
	}
	if h.State != store.HostGivenUp {
		t.Errorf("after 12 minutes with a request every 4: %v, want given up", h.State)
	}
}

func TestForgiveHost(t *testing.T) {
	now := time.Now()
	since := now.Add(-time.Hour)
	before, during := since.Add(-5*time.Minute), since.Add(time.Minute)
	failing := func(at time.Time) store.Health {
		return store.Health{
			State: store.HostFailing, Since: at, Failures: 7, NextTry: now.Add(1e12),
		}
	}
	if h := forgive(failing(during), since, now); h != (store.Health{}) {
		t.Errorf("failed since the outage: %+v, want no failure", h)
	}
	h := forgive(failing(before), since, now)
	if now.Sub(h.Since) != 5*time.Minute || h.NextTry != now || h.State != store.HostFailing {
		t.Errorf("failed before the outage: %+v, want failing for five minutes, asked now", h)
	}
	gone := failing(during)
	gone.State = store.HostGivenUp
	if h := forgive(gone, since, now); h != gone {
		t.Errorf("given up: %+v, want no change", h)
	}
}

// lastFailure is a Network that has the last failure.
type lastFailure struct{ err error }

func (*lastFailure) Online() bool                     { return true }
func (*lastFailure) Answered(netip.Addr)              {}
func (n *lastFailure) Failed(_ netip.Addr, err error) { n.err = err }

// A request that ended because of its timeout is reported as such, not as one that was canceled.
func TestTimeoutIsReported(t *testing.T) {
	n := &lastFailure{}
	c := &Crawler{cfg: Config{Network: n}}
	c.reportNetwork(netip.Addr{}, store.FetchReport{Outcome: store.OutcomeTimeout},
		fmt.Errorf("no response in time: %w", context.Canceled))
	if errors.Is(n.err, context.Canceled) || !errors.Is(n.err, os.ErrDeadlineExceeded) {
		t.Errorf("reported %v, want a timeout", n.err)
	}
}

// A failure counts against a URL only if the host answered before, and not at once if there was
// no answer at all.
func TestTried(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		tries  int
		failed bool // before
		state  store.HostState
		found  finding
		want   int
	}{
		{0, false, store.HostAnswering, foundUnreachable, 0},
		{0, true, store.HostAnswering, foundUnreachable, 1},
		{0, false, store.HostAnswering, foundBroken, 1},
		{3, true, store.HostAnswering, foundThrottled, 4},
		{3, true, store.HostFailing, foundBroken, 3},
		{3, true, store.HostThrottled, foundThrottled, 3},
		{3, true, store.HostGivenUp, foundUnreachable, 3},
		{-1 << 40, true, store.HostAnswering, foundBroken, 1}, // from another peer
	} {
		e := store.Entry{Tries: tc.tries}
		if tc.failed {
			e.First = now.Add(-time.Minute)
		}
		got := tried(e, tc.state, tc.found, now)
		if got.Tries != tc.want || got.First.IsZero() {
			t.Errorf("tried(%+v) = %+v, want %d tries", tc, got, tc.want)
		}
	}
}
