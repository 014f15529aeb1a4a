//go:build integration

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// Two separate networks crawl the same sites. Then one peer gets the address of a peer of the
// other network. Soon each subnet has one owner, which alone fetches from it and keeps the
// minimum delay, and everything that any peer had found is fetched.
func TestMerge(t *testing.T) {
	if !*slow {
		t.Skip("takes four minutes; needs -slow")
	}
	const sites, pages, gap = 8, 800, time.Second
	w, flags := serveWeb(t, web.Config{Sites: sites, Pages: pages, Seed: 19, MinDelay: gap}, 113)
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info",
		"--listen", "/ip4/127.0.0.1/tcp/0")
	var all []*daemon
	for range 2 {
		ds := []*daemon{newDaemon(t, flags...), newDaemon(t, flags...)}
		meet(t, ds)
		peerd(t, "seed", "--home", ds[1].home, w.Seed())
		all = append(all, ds...)
	}
	eventually(t, 2*time.Minute, "both own most of the sites, and are no newcomers",
		func() (bool, any) {
			var own [2]int
			up := 0.0
			for i, d := range all {
				s, err := d.ask()
				if err != nil {
					return false, err
				}
				own[i/2] += s.SubnetsOwned
				up = s.UptimeS
			}
			return own[0] > sites/2 && own[1] > sites/2 && up > 40, fmt.Sprint(own, up)
		})
	if n := len(w.Missing(pages)); n == 0 {
		t.Fatal("the networks finished before they were joined")
	}

	bridge := all[3]
	bridge.terminate(20 * time.Second)
	bridge.flags = append(bridge.flags, "--bootstrap", all[0].status().Addrs[0])
	bridge.run()
	met := time.Now()
	eventually(t, 5*time.Minute, "each subnet has one owner", func() (bool, any) {
		n := 0
		for _, d := range all {
			s, err := d.ask()
			if err != nil || s.Directory < len(all)-1 {
				return false, fmt.Sprint(s.Directory, err)
			}
			n += s.SubnetsOwned
		}
		return n <= sites, n
	})
	one := time.Now()
	t.Logf("one owner each after %v, %d pages are missing", one.Sub(met).Round(time.Second),
		len(w.Missing(pages)))
	awaitIdle(t, 6*time.Minute, all)

	owners := map[string]int{}
	for _, d := range all {
		for line := range strings.Lines(peerd(t, "subnets", "--home", d.home)) {
			if strings.HasPrefix(line, "127.") {
				owners[strings.Fields(line)[0]]++
			}
		}
	}
	for subnet, n := range owners {
		if n != 1 {
			t.Errorf("%s has %d owners, want 1", subnet, n)
		}
	}
	if a := w.Audit(); len(owners) != sites || a.PagesFetched != pages || a.RobotsViolations+
		a.Lost > 0 {
		t.Errorf("%d subnets; %d of %d pages, missing %q; %+v", len(owners), a.PagesFetched, pages,
			w.Missing(5), a)
	}
	last, again := map[string]time.Time{}, map[string]int{}
	for _, h := range w.Log() {
		if h.Start.Before(one) || h.Bare {
			continue
		}
		if before, ok := last[h.Host]; ok && h.Start.Sub(before) < gap-5*time.Millisecond {
			t.Errorf("%s %s was requested %v after the previous request", h.Host, h.Path,
				h.Start.Sub(before))
		}
		last[h.Host] = h.End
		if again[h.Host+h.Path]++; h.Page && again[h.Host+h.Path] > 1 {
			t.Errorf("%s %s was fetched twice by its owner", h.Host, h.Path)
		}
	}
}
