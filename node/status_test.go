package node

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"peerd/overlay/owner"
)

// What was dropped without a name was beyond a limit; marks are no drops.
func TestSplitReasons(t *testing.T) {
	for _, c := range []struct {
		total           int64
		named           map[string]int64
		dropped, marked map[string]int64
	}{
		{0, nil, map[string]int64{}, map[string]int64{}},
		{7, map[string]int64{"numbers": 4, "subdomains": 1, "duplicate": 9}, map[string]int64{"numbers": 4, "subdomains": 1, "limit": 2}, map[string]int64{"duplicate": 9}},
		{4, map[string]int64{"length": 4}, map[string]int64{"length": 4}, map[string]int64{}},
	} {
		dropped, marked := splitReasons(c.total, c.named)
		if !maps.Equal(dropped, c.dropped) || !maps.Equal(marked, c.marked) || dropped == nil || marked == nil {
			t.Errorf("%d, %v: %v, %v", c.total, c.named, dropped, marked)
		}
	}
}

// Whoever wonders why nothing happens is told.
func TestStatusSaysWhatIsInTheWay(t *testing.T) {
	o := options(t)
	o.Config.Crawl.Hours = "03:00-04:00"
	o.Config.Archive.Enabled, o.Config.Archive.Quota = true, 1<<30
	o.Config.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWRwrR3EbR9fkqGdpPWDXTC3gPLcixzQkN4Y6HYRCgPzPX"}
	n := newNode(t, o)
	defer n.Close()
	at := time.Date(2026, 1, 31, 5, 0, 0, 0, time.Local)
	for _, c := range []struct {
		at   time.Time
		new  bool
		want []string
	}{
		{at, false, []string{"(crawl.hours), until 2026-02-01 03:00"}},
		{at, true, []string{"(crawl.hours)"}}, // that nothing is claimed has this reason then
		{at.Add(-90 * time.Minute), false, nil},
		{at.Add(-90 * time.Minute), true, []string{"can be reached"}},
	} {
		got := n.blocked(c.at, c.new)
		if len(got) != len(c.want) {
			t.Errorf("%v, %v: %q", c.at, c.new, got)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%v, %v: %q, want %q", c.at, c.new, got, c.want)
			}
		}
	}
	if err := n.mayClaim(at); !errors.Is(err, errHours) || errors.Is(err, owner.ErrAlone) {
		t.Errorf("outside the hours: %v", err)
	}
	if err := n.mayClaim(at.Add(-90 * time.Minute)); !errors.Is(err, owner.ErrAlone) {
		t.Errorf("without anybody: %v", err)
	}
	if a := n.Status().Archive; a == nil || a.Quota != 1<<30 {
		t.Errorf("archive: %+v", a)
	}

	o = options(t)
	o.Config.Crawl.MinFree = 1 << 60
	n = newNode(t, o)
	defer n.Close()
	if got := n.blocked(at, true); len(got) != 1 || !strings.Contains(got[0], "(crawl.min_free)") {
		t.Errorf("full disk: %q", got)
	}
	if n.Status().Archive != nil {
		t.Error("an archive where there is none")
	}
}
