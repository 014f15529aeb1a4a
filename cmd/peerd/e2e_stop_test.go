package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// handedOver is what stop says last when nothing is left.
var handedOver = regexp.MustCompile(`(?m)^[1-9][0-9]* subnets handed over$`)

// leavers are the ways in which a peer leaves for good and hands everything over.
var leavers = map[string]func(t *testing.T, d *daemon){
	"stop": func(t *testing.T, d *daemon) {
		_, said, code := tryPeerd(t, "stop", "--home", d.home, "--drain-timeout", "60s")
		t.Logf("stop said %q", said)
		if code != 0 || !handedOver.MatchString(said) {
			t.Errorf("stop: status %d, said %q", code, said)
		}
	},
	"signal": func(t *testing.T, d *daemon) {
		if code := d.terminate(2 * time.Minute); code != 0 {
			t.Errorf("SIGTERM: status %d", code)
		}
	},
}

// A peer that leaves hands all that it owns over: the others crawl the rest, and
// nothing twice.
func TestLeavingPeerHandsOver(t *testing.T) {
	t.Parallel()
	octet := byte(103)
	for name, leave := range leavers {
		at := octet
		octet++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && name != "stop" {
				t.Skip("the command is enough")
			}
			w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 480, Seed: 13, MinDelay: 60 * time.Millisecond}, at)
			const anywhere = "/ip4/127.0.0.1/tcp/0"
			ds := network(t, w, append(flags, "--drain"), anywhere, anywhere, anywhere)
			peerd(t, "seed", "--home", ds[1].home, w.Seed())
			leaver := ds[0]
			eventually(t, 40*time.Second, "every site is found, and it owns some", func() (bool, any) {
				n, err := 0, error(nil)
				for _, d := range ds {
					s, e := d.ask()
					if e != nil {
						err = e
					}
					if n += s.SubnetsOwned; s.SubnetsOwned > leaverOwns(leaver) {
						leaver = d
					}
				}
				return err == nil && n >= 8, n
			})
			leave(t, leaver)
			if !strings.Contains(leaver.said(), `msg="everything is handed over"`) {
				t.Error("it left with something")
			}
			var rest []*daemon
			for _, d := range ds {
				if d != leaver {
					rest = append(rest, d)
				}
			}
			awaitQuiet(t, 40*time.Second, rest)
			a := w.Audit()
			if a.PagesFetched != 480 || a.Fetches != 480 {
				t.Errorf("%d of 480 pages in %d fetches; missing %q", a.PagesFetched, a.Fetches, w.Missing(5))
			}
			if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
				t.Errorf("audit: %+v", a)
			}
		})
	}
}

func leaverOwns(d *daemon) int {
	s, err := d.ask()
	if err != nil {
		return 0
	}
	return s.SubnetsOwned
}

// At once means at once, whatever is left.
func TestStopNow(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0")
	d.run()
	peerd(t, "stop", "--home", d.home, "--now")
	if code := d.wait(5 * time.Second); code != 0 {
		t.Errorf("status %d", code)
	}
	if _, said, code := tryPeerd(t, "stop", "--home", d.home, "--drain-timeout", "0s"); code != exitUsage {
		t.Errorf("--drain-timeout 0s: status %d, %q", code, said)
	}
}
