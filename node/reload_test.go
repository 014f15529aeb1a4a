package node

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/node/config"
)

// A pause stops fetching and claiming, shows, outlives a restart, and ends by itself or by Resume.
func TestPause(t *testing.T) {
	o := options(t)
	n := newNode(t, o)
	now := time.Now()
	if wait := n.fetchWait(now); wait != 0 {
		t.Fatalf("fetchWait() = %v before the pause", wait)
	}
	if err := n.Pause(time.Hour); err != nil {
		t.Fatal(err)
	}
	if end := n.pause.until; end != end.Round(0) {
		t.Errorf("the pause ends at %v, want the time of day only", end)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	n = newNode(t, o)
	defer n.Close()
	if wait := n.fetchWait(now); wait <= 0 || wait > pausePoll {
		t.Errorf("fetchWait() = %v in the pause, want at most %v", wait, pausePoll)
	}
	if err := n.mayClaim(now); !errors.Is(err, errHours) {
		t.Errorf("mayClaim() = %v in the pause", err)
	}
	if !n.limits(now).Closed {
		t.Error("the peer accepts subnets in the pause")
	}
	if b := n.Status().Blocked; len(b) != 1 || !strings.Contains(b[0], "paused") {
		t.Errorf("Blocked = %q, want the pause", b)
	}
	if !(&measured{n: n}).blocked(now)["paused"] {
		t.Error("the metrics do not tell of the pause")
	}
	for _, l := range n.Limits() {
		if l.Active {
			t.Errorf("in the pause, %s limits the peer: %s", l.Name, l.Advice)
		}
	}
	if h := n.Status().Health; h.State != "paused" || !strings.Contains(h.Why, "until") {
		t.Errorf("Health = %+v", h)
	}
	if wait := n.fetchWait(now.Add(2 * time.Hour)); wait != 0 {
		t.Errorf("fetchWait() = %v after the pause", wait)
	}
	if err := n.Resume(); err != nil {
		t.Fatal(err)
	}
	if wait := n.fetchWait(now); wait != 0 || n.limits(now).Closed {
		t.Errorf("fetchWait() = %v after Resume", wait)
	}
	if err := n.Pause(0); err != nil {
		t.Fatal(err)
	}
	if wait := n.fetchWait(now.Add(10000 * time.Hour)); wait == 0 {
		t.Error("a pause without an end has ended")
	}
}

// Reload applies limits, lists what needs a restart, and changes nothing if the file is invalid.
func TestReload(t *testing.T) {
	o := options(t)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(o.Home.ConfigFile(), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("local_sites = { 'https://www.example.org/' = '/srv/www' }\n" +
		"[crawl]\npages_per_day = 24\n")
	var err error
	o.Config, err = o.Home.Load()
	if err != nil {
		t.Fatal(err)
	}
	o.Config.Listen = []string{"/ip4/127.0.0.1/tcp/0"} // an option of the command line
	n := newNode(t, o)
	defer n.Close()
	if _, ok, err := n.quota.Acquire(time.Now()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if wait := n.fetchWait(time.Now()); wait < 30*time.Minute {
		t.Fatalf("fetchWait() = %v, want about an hour", wait)
	}
	write("api = '127.0.0.1:0'\nmdns = true\n[crawl]\npages_per_day = 86400\nworkers = 1\n")
	if _, err := n.Reload(); !errors.Is(err, config.ErrInvalid) ||
		n.crawlSettings().PagesPerDay != 24 {
		t.Errorf("Reload(invalid) = %v, limit %d", err, n.crawlSettings().PagesPerDay)
	}
	write("api = '127.0.0.1:0'\nmdns = true\n[crawl]\npages_per_day = 86400\n" +
		"hours = '00:00-24:00'\n[traffic]\nbandwidth = '20kB'\n")
	r, err := n.Reload()
	if err != nil || !slices.Equal(r.Restart, []string{"local_sites", "mdns"}) ||
		!slices.Equal(r.Applied, []string{"crawl.hours = 00:00-24:00",
			"crawl.pages_per_day = 86400", "traffic.bandwidth = 20000"}) {
		t.Errorf("Reload() = %+v, %v", r, err)
	}
	if wait := n.fetchWait(time.Now()); wait > time.Minute {
		t.Errorf("fetchWait() = %v under the new limit", wait)
	}
	// As after a start with these settings.
	if minimum, steady := n.fetcher.Rates(); minimum > 512 || steady != 20_000/32 {
		t.Errorf("bodies must come at %d and %d bytes/s, want at most 512 and 625", minimum, steady)
	}
	shown := map[string]string{}
	for _, s := range n.Settings() {
		shown[s.Key] = s.Value
	}
	for _, l := range n.Limits() {
		shown["limit of "+l.Setting] = fmt.Sprint(l.Max)
	}
	if shown["crawl.hours"] != "00:00-24:00" || shown["limit of crawl.pages_per_day"] != "86400" {
		t.Errorf("after Reload() the dashboard shows %v", shown)
	}
	if r, err := n.Reload(); err != nil || len(r.Applied) > 0 || len(r.Restart) != 2 {
		t.Errorf("second Reload() = %+v, %v, want local_sites and mdns", r, err)
	}
}
