//go:build integration

package main

import (
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate/web"
)

// handedOver matches the last line of stop when nothing is left.
var handedOver = regexp.MustCompile(`(?m)^handed over [1-9][0-9]* subnets$`)

// leavers are the ways in which a peer stops after handing everything over.
var leavers = map[string]func(t *testing.T, d *daemon){
	"stop": func(t *testing.T, d *daemon) {
		_, stderr, code := tryPeerd(t, "stop", "--home", d.home, "--drain-timeout", "5m")
		t.Logf("stop: stderr %q", stderr)
		if code != 0 || !handedOver.MatchString(stderr) {
			t.Errorf("stop: status %d, stderr %q", code, stderr)
		}
	},
	"signal": func(t *testing.T, d *daemon) {
		if code := d.terminate(2 * time.Minute); code != 0 {
			t.Errorf("status after SIGTERM = %d, want 0", code)
		}
	},
}

// A peer that leaves hands everything over: the others crawl the rest, and no page twice.
func TestLeavingPeerHandsOver(t *testing.T) {
	t.Parallel()
	octet := byte(103)
	for name, leave := range leavers {
		at := octet
		octet++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 480, Seed: 13,
				MinDelay: 60 * time.Millisecond}, at)
			const anywhere = "/ip4/127.0.0.1/tcp/0"
			ds := network(t, w, append(flags, "--drain"), anywhere, anywhere, anywhere)
			peerd(t, "seed", "--home", ds[1].home, w.Seed())
			leaver := ds[0]
			eventually(t, 40*time.Second, "every site is found, and the peer owns some",
				func() (bool, any) {
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
			if !strings.Contains(leaver.stderrText(), `msg="handed everything over"`) {
				t.Error("the peer stopped before it had handed everything over")
			}
			var rest []*daemon
			for _, d := range ds {
				if d != leaver {
					rest = append(rest, d)
				}
			}
			awaitIdle(t, 40*time.Second, rest)
			a := w.Audit()
			if a.PagesFetched != 480 || a.Fetches != 480 {
				t.Errorf("fetched %d of 480 pages in %d fetches; missing %q",
					a.PagesFetched, a.Fetches, w.Missing(5))
			}
			if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
				t.Errorf("audit = %+v, want no violation", a)
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

// With --now, the peer stops at once, whatever is left.
func TestStopNow(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0")
	d.run()
	peerd(t, "stop", "--home", d.home, "--now")
	if code := d.wait(5 * time.Second); code != 0 {
		t.Errorf("status = %d, want 0", code)
	}
	if _, stderr, code := tryPeerd(t, "stop", "--home", d.home, "--drain-timeout",
		"0s"); code != cli.ExitUsage {
		t.Errorf("stop --drain-timeout 0s: status %d, stderr %q", code, stderr)
	}
}

// When the last other peer has been killed, stop says what stays in the home, and does not wait for
// its time-out.
func TestStopWithoutPeers(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 2, Pages: 400, Seed: 13,
		MinDelay: 100 * time.Millisecond}, 118)
	const anywhere = "/ip4/127.0.0.1/tcp/0"
	ds := network(t, w, flags, anywhere, anywhere)
	peerd(t, "seed", "--home", ds[1].home, w.Seed())
	eventually(t, time.Minute, "the second peer owns a subnet", func() (bool, any) {
		s, err := ds[1].ask()
		return err == nil && s.SubnetsOwned > 0, err
	})
	ds[0].kill()
	begin := time.Now()
	_, stderr, code := tryPeerd(t, "stop", "--home", ds[1].home, "--drain-timeout", "1h")
	t.Logf("stop took %v: %q", time.Since(begin).Round(time.Millisecond), stderr)
	if code != 0 || !strings.Contains(stderr, "handing over: ") ||
		!strings.Contains(stderr, "stays in the home: no other peer can be reached") {
		t.Errorf("stop: status %d, stderr %q, want progress and a reason", code, stderr)
	}
	ds[1].wait(time.Minute)
}

// SIGHUP, as at the end of a terminal session, does not end the peer. A killed peer leaves
// api.json behind: commands report that, and the next run replaces the file.
func TestHangupAndStaleFile(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0")
	d.run()
	if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the signal is logged", func() (bool, any) {
		return strings.Contains(d.stderrText(), "reloaded config.toml"), d.running()
	})
	if _, err := d.ask(); err != nil {
		t.Errorf("status after SIGHUP: %v", err)
	}
	d.kill()
	refused(t, cli.ExitFailed, "api.json was left behind by a peer that was killed; "+
		"start one with: peerd run --home", "status", "--home", d.home)
	d.run()
	if code := d.terminate(time.Minute); code != 0 {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	refused(t, cli.ExitFailed, "no peer is running with this home; start", "status", "--home",
		d.home)
}
