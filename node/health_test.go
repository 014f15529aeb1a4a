package node

import (
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
)

// Each state has its cause, and the first one that applies is shown.
func TestHealth(t *testing.T) {
	good := facts{up: time.Hour, bootstrap: true, members: 4, inbound: true, waiting: 7, fetched: 9}
	for _, tt := range []struct {
		want   admin.HealthState
		change func(*facts)
		text   string // in Why or Do
	}{
		{admin.HealthCrawling, func(*facts) {}, "7 URLs"},
		{admin.HealthPaused, func(f *facts) { f.paused, f.offline = "since noon", "no route" },
			"peerd resume"},
		{admin.HealthOffline, func(f *facts) { f.offline, f.blocked = "no route", []string{"x"} },
			"no route"},
		{admin.HealthHeldBack, func(f *facts) { f.blocked = []string{"a (crawl.hours)", "b"} },
			"a (crawl.hours); b"},
		{admin.HealthAlone, func(f *facts) { f.clock = "10m0s behind those of other peers (2)" },
			"the clock is 10m0s behind those of other peers (2), which refuse"},
		{admin.HealthJoining, func(f *facts) { f.members, f.up = 0, time.Second }, "no peer"},
		{admin.HealthAlone, func(f *facts) { f.members, f.lastError = 0, "refused" }, "refused"},
		{admin.HealthAlone, func(f *facts) { f.members, f.bootstrap, f.up = 0, false, 0 },
			"peerd invite"},
		{admin.HealthJoining,
			func(f *facts) { f.members, f.bootstrap, f.mdns, f.up = 0, false, true, 0 },
			"no peer has answered"},
		{admin.HealthAlone, func(f *facts) { f.members, f.bootstrap, f.mdns = 0, false, true },
			"peerd invite"},
		{admin.HealthCrawling, func(f *facts) { f.members, f.alone = 0, true }, "7 URLs"},
		{admin.HealthUnreachable, func(f *facts) { f.inbound = false }, "firewall"},
		{admin.HealthCrawling, func(f *facts) { f.inbound, f.up = false, time.Minute }, "7 URLs"},
		{admin.HealthCrawling, func(f *facts) { f.inbound, f.members = false, 2 }, "7 URLs"},
		{admin.HealthCollecting, func(f *facts) { f.collects = true }, "4 peers are connected"},
		{admin.HealthAlone, func(f *facts) { f.collects, f.members = true, 0 }, "no peer can"},
		{admin.HealthIdle, func(f *facts) { f.waiting, f.fetched = 0, 0 }, "peerd seed"},
		{admin.HealthIdle, func(f *facts) { f.waiting, f.fetched, f.sent = 0, 0, 5 }, "trace"},
		{admin.HealthIdle, func(f *facts) { f.waiting, f.fetched, f.givenUp = 0, 0, 3 },
			"3 URLs were given up"},
		{admin.HealthDone, func(f *facts) { f.waiting = 0 }, "all 9 pages"},
		{admin.HealthIdle, func(f *facts) { f.waiting, f.revisits = 0, true }, "due"},
	} {
		f := good
		tt.change(&f)
		if h := f.health(); h.State != tt.want || !strings.Contains(h.Why+h.Do, tt.text) {
			t.Errorf("%+v: %+v, want %s and %q", f, h, tt.want, tt.text)
		}
	}
}
