package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// volunteers starts three peers that crawl w, each telling sites its own name: "free",
// "limited" to a number of pages a day, and "night" with working hours.
func volunteers(t *testing.T, w *web.Web, flags []string, pages int, hours string) (free, limited, night *daemon) {
	t.Helper()
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info", "--listen", "/ip4/127.0.0.1/tcp/0")
	var ds []*daemon
	for _, v := range [][2]string{
		{"free", ""}, {"limited", fmt.Sprintf("pages_per_day = %d", pages)}, {"night", fmt.Sprintf("hours = %q", hours)},
	} {
		d := newDaemon(t, flags...)
		file := filepath.Join(d.home, "config.toml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		settings := strings.ReplaceAll(string(text), "/crawler'", "/"+v[0]+"'") + "[crawl]\n" + v[1] + "\n"
		if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
		ds = append(ds, d)
	}
	meet(t, ds)
	return ds[0], ds[1], ds[2]
}

// by returns the requests of a volunteer in the sites' log.
func by(w *web.Web, name string) (hits []web.Hit) {
	for _, h := range w.Log() {
		if strings.Contains(h.Agent, "/"+name+")") {
			hits = append(hits, h)
		}
	}
	return hits
}

// span is the setting hours for the three that begin at a minute.
func span(from time.Time) string {
	return from.Format("15:04") + "-" + from.Add(3*time.Hour).Format("15:04")
}

// A peer that is closed fetches nothing, one with a limit what that lets it; what it
// has left goes to others when it leaves, and all is fetched once.
func TestLimitsOfVolunteersHold(t *testing.T) {
	const perDay, burst = 240, 10 // the next one comes in more than six minutes
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 240, Seed: 17, MinDelay: 5 * time.Millisecond}, 111)
	free, limited, night := volunteers(t, w, flags, perDay, span(time.Now().Add(6*time.Hour)))
	begin := time.Now()
	peerd(t, "seed", "--home", limited.home, w.Seed())
	eventually(t, 60*time.Second, "the limited peer is at its end, the free one has done its part", func() (bool, any) {
		s, err := limited.ask()
		f, ferr := free.ask()
		spent := slices.ContainsFunc(s.Blocked, func(why string) bool { return strings.Contains(why, "crawl.pages_per_day") })
		return err == nil && ferr == nil && spent && s.SubnetsOwned > 0 && f.Frontier.Pending == 0, fmt.Sprint(s.Blocked, err, ferr)
	})
	if s := night.status(); s.SubnetsOwned > 0 || len(s.Blocked) != 1 || !strings.Contains(s.Blocked[0], "crawl.hours") {
		t.Errorf("the closed peer: %d subnets, blocked by %q", s.SubnetsOwned, s.Blocked)
	}
	most := burst + int(time.Since(begin)/(6*time.Minute))
	if n := len(by(w, "limited")); n == 0 || n > most {
		t.Errorf("%d requests of the limited peer, want 1 to %d", n, most)
	}
	if _, said, code := tryPeerd(t, "stop", "--home", limited.home, "--drain-timeout", "30s"); code != 0 {
		t.Fatalf("stop: status %d, %q", code, said)
	}
	awaitQuiet(t, 60*time.Second, []*daemon{free, night})
	onceEach(t, w, 240)
	if n := len(by(w, "night")); n > 0 {
		t.Errorf("%d requests outside the hours", n)
	}
	t.Logf("%d requests of the free peer, %d of the limited one", len(by(w, "free")), len(by(w, "limited")))
}

// onceEach wants each page fetched once, politely.
func onceEach(t *testing.T, w *web.Web, pages int) {
	t.Helper()
	a := w.Audit()
	if a.PagesFetched != pages || a.Fetches != pages {
		t.Errorf("%d of %d pages in %d fetches; missing %q", a.PagesFetched, pages, a.Fetches, w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit: %+v", a)
	}
}

// What was found before the hours begin is fetched when they do, by this peer too.
func TestWorkBeginsWithTheHours(t *testing.T) {
	if os.Getenv("PEERD_SLOW") == "" {
		t.Skip("takes up to two minutes; set PEERD_SLOW=1")
	}
	opens := time.Now().Add(80 * time.Second).Truncate(time.Minute)
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 240, Seed: 18, MinDelay: 5 * time.Millisecond}, 112)
	free, other, night := volunteers(t, w, flags, 1_000_000, span(opens))
	peerd(t, "seed", "--home", night.home, w.Seed())
	eventually(t, 2*time.Minute, "its hours begin, and something is fetched", func() (bool, any) {
		return len(w.Log()) > 0, night.status().Blocked
	})
	awaitQuiet(t, 60*time.Second, []*daemon{free, other, night})
	onceEach(t, w, 240)
	hits := by(w, "night")
	if len(hits) == 0 {
		t.Error("the peer whose hours have begun fetched nothing")
	}
	for _, h := range w.Log() {
		if h.Start.Before(opens) {
			t.Errorf("%s %s was asked for %v before the hours", h.Host, h.Path, opens.Sub(h.Start))
		}
	}
	t.Logf("%d requests of the peer with hours, %d of the others", len(hits), len(w.Log())-len(hits))
}
