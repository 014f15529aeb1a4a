package node

import (
	"strings"
	"testing"
	"time"

	"peerd/crawl/quota"
	"peerd/node/config"
	"peerd/overlay/owner"
	"peerd/store"
)

func TestLimits(t *testing.T) {
	at := func(h, m int) time.Time { return time.Date(2026, 3, 4, h, m, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		crawl config.Crawl
		now   time.Time
		want  owner.Limits
	}{
		"none": {config.Crawl{}, at(12, 0), owner.Limits{}},
		"pages": {config.Crawl{PagesPerDay: 5000}, at(12, 0),
			owner.Limits{Pages: 5000}},
		"bandwidth": {config.Crawl{Bandwidth: 1000}, at(12, 0), owner.Limits{Pages: 864}},
		"the least": {config.Crawl{PagesPerDay: 100, Bandwidth: 1000}, at(12, 0),
			owner.Limits{Pages: 100}},
		"bandwidth of hours": {config.Crawl{Bandwidth: 1000, Hours: "22:00-04:00"}, at(23, 0),
			owner.Limits{Pages: 216}},
		"open": {config.Crawl{Hours: "22:00-06:00"}, at(5, 49), owner.Limits{}},
		"nearly closed": {config.Crawl{Hours: "22:00-06:00"}, at(5, 51),
			owner.Limits{Closed: true}},
		"closed": {config.Crawl{Hours: "22:00-06:00"}, at(12, 0),
			owner.Limits{Closed: true}},
		"nearly open": {config.Crawl{Hours: "22:00-06:00"}, at(21, 59),
			owner.Limits{Closed: true}},
		"open again": {config.Crawl{Hours: "22:00-06:00"}, at(22, 0), owner.Limits{}},
		"all day":    {config.Crawl{Hours: "00:00-24:00"}, at(23, 55), owner.Limits{}},
	} {
		if got := workLimits(c.crawl, c.now, 100e3); got != c.want {
			t.Errorf("%s: workLimits() = %+v, want %+v", name, got, c.want)
		}
	}
}

// Requests before a restart count after it, and the status shows the limit.
func TestQuotaAfterRestart(t *testing.T) {
	o := options(t)
	o.Config.Crawl.PagesPerDay = 48 // a burst of two
	n := newNode(t, o)
	for range 2 {
		if _, ok, err := n.quota.Acquire(time.Now()); !ok || err != nil {
			t.Fatalf("Take() = %v, %v, want true", ok, err)
		}
	}
	for run := range 2 {
		if _, ok, _ := n.quota.Acquire(time.Now()); ok || n.fetchWait(time.Now()) < 20*time.Minute {
			t.Errorf("run %d: a third request is allowed, now or soon", run)
		}
		if why := strings.Join(n.blocked(time.Now(), false), "; "); !strings.Contains(why,
			"48 pages a day (crawl.pages_per_day)") {
			t.Errorf("run %d: blocked() = %q", run, why)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		n = newNode(t, o)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestQuotaConfig(t *testing.T) {
	db, err := store.Open("", store.Options{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := config.Crawl{PagesPerDay: 480, Bandwidth: 1000, Hours: "22:00-06:00"}
	at := func(h int) time.Time { return time.Date(2026, 3, 4, h, 0, 0, 0, time.UTC) }
	q, err := quota.New(quotaConfig(c, c.Hours.Wait, db), at(21))
	if err != nil {
		t.Fatal(err)
	}
	if wait := q.Wait(at(21)); wait != time.Hour {
		t.Errorf("Wait() an hour before the hours = %v, want 1h", wait)
	}
	n := 0
	for now := at(22); now.Before(at(22).Add(8 * time.Hour)); now = now.Add(time.Second) {
		for {
			ticket, ok, err := q.Acquire(now)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			ticket.Done(100)
			n++
		}
	}
	if n < 440 || n > 480 {
		t.Errorf("%d requests in a night, want 440 to 480", n)
	}
}

// An archive with a small quota is not nearly full while it is empty.
func TestSmallArchive(t *testing.T) {
	o := options(t)
	o.Config.Archive.Enabled, o.Config.Archive.Quota = true, 32<<20
	n := newNode(t, o)
	defer n.Close()
	if l := n.archiveLimit(); l.Active || l.Max != 32<<20 {
		t.Errorf("%+v, want a limit that is not active", l)
	}
}
