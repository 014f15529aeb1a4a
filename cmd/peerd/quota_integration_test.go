//go:build integration

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// volunteers starts three peers that crawl w, each with a name that the sites see: "free",
// "limited" with a limit of pages a day, and "night" with hours.
func volunteers(
	t *testing.T, w *web.Web, flags []string, pages int, hours string,
) (free, limited, night *daemon) {
	t.Helper()
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info",
		"--listen", "/ip4/127.0.0.1/tcp/0")
	var ds []*daemon
	for _, v := range [][2]string{
		{"free", ""}, {"limited", fmt.Sprintf("pages_per_day = %d", pages)},
		{"night", fmt.Sprintf("hours = %q", hours)},
	} {
		d := newDaemon(t, flags...)
		file := filepath.Join(d.home, "config.toml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		settings := strings.ReplaceAll(string(text), "/crawler'", "/"+v[0]+"'") + "[crawl]\n" +
			v[1] + "\n"
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	meet(t, ds)
	return ds[0], ds[1], ds[2]
}

// by returns the requests of a peer in the log of the sites.
func by(w *web.Web, name string) (hits []web.Hit) {
	for _, h := range w.Log() {
		if strings.Contains(h.Agent, "/"+name+")") {
			hits = append(hits, h)
		}
	}
	return hits
}

// span returns the setting hours for the three hours from a minute on.
func span(from time.Time) string {
	return from.Format("15:04") + "-" + from.Add(3*time.Hour).Format("15:04")
}

// A closed peer fetches nothing, and a limited one no more than its limit. Other peers get what
// they leave, and everything is fetched once.
func TestQuota(t *testing.T) {
	const perDay, burst = 240, 10 // the next one comes in more than six minutes
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 240, Seed: 17,
		MinDelay: 5 * time.Millisecond}, 111)
	free, limited, night := volunteers(t, w, flags, perDay, span(time.Now().Add(6*time.Hour)))
	begin := time.Now()
	peerd(t, "seed", "--home", limited.home, w.Seed())
	eventually(t, 60*time.Second, "the limited peer is at its end, the free one has done its part",
		func() (bool, any) {
			s, err := limited.ask()
			f, ferr := free.ask()
			spent := slices.ContainsFunc(s.Blocked, func(why string) bool {
				return strings.Contains(why, "crawl.pages_per_day")
			})
			// The free peer may have been chosen for all subnets.
			done := w.Audit().PagesFetched == 240 ||
				spent && s.SubnetsOwned > 0 && f.Frontier.Pending == 0
			return err == nil && ferr == nil && done, fmt.Sprint(s.Blocked, err, ferr)
		})
	if s := night.status(); s.SubnetsOwned > 0 || len(s.Blocked) != 1 ||
		!strings.Contains(s.Blocked[0], "crawl.hours") {
		t.Errorf("closed peer: %d subnets, blocked = %q", s.SubnetsOwned, s.Blocked)
	}
	most := burst + int(time.Since(begin)/(6*time.Minute))
	for _, h := range by(w, "limited") {
		if h.Path == "/robots.txt" {
			most++ // the request that follows it may be on loan (quota.Borrow)
		}
	}
	if n := len(by(w, "limited")); n == 0 || n > most {
		t.Errorf("the limited peer sent %d requests, want 1 to %d", n, most)
	}
	if _, stderr, code := tryPeerd(t, "stop", "--home", limited.home, "--drain-timeout",
		"5m"); code != 0 {
		t.Fatalf("stop: status %d, stderr %q", code, stderr)
	}
	awaitIdle(t, 60*time.Second, []*daemon{free, night})
	onceEach(t, w, 240)
	if n := len(by(w, "night")); n > 0 {
		t.Errorf("the closed peer sent %d requests, want none", n)
	}
	t.Logf("%d requests of the free peer, %d of the limited one", len(by(w, "free")),
		len(by(w, "limited")))
}

// onceEach checks that each page is fetched once, politely.
func onceEach(t *testing.T, w *web.Web, pages int) {
	t.Helper()
	a := w.Audit()
	if a.PagesFetched != pages || a.Fetches != pages {
		t.Errorf("fetched %d of %d pages in %d fetches; missing %q",
			a.PagesFetched, pages, a.Fetches,
			w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit = %+v, want no violation", a)
	}
}

// URLs that were found before the hours are fetched within them, by this peer as well.
func TestHours(t *testing.T) {
	if !*slow {
		t.Skip("takes up to two minutes; needs -slow")
	}
	opens := time.Now().Add(80 * time.Second).Truncate(time.Minute)
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 240, Seed: 18,
		MinDelay: 5 * time.Millisecond}, 112)
	free, other, night := volunteers(t, w, flags, 1_000_000, span(opens))
	peerd(t, "seed", "--home", night.home, w.Seed())
	eventually(t, 2*time.Minute, "its hours begin, and something is fetched", func() (bool, any) {
		return len(w.Log()) > 0, night.status().Blocked
	})
	awaitIdle(t, 60*time.Second, []*daemon{free, other, night})
	onceEach(t, w, 240)
	hits := by(w, "night")
	if len(hits) == 0 {
		t.Error("the peer fetched nothing within its hours")
	}
	for _, h := range w.Log() {
		if h.Start.Before(opens) {
			t.Errorf("%s %s was requested %v before the hours", h.Host, h.Path, opens.Sub(h.Start))
		}
	}
	t.Logf("%d requests of the peer with hours, %d of the others", len(hits),
		len(w.Log())-len(hits))
}
