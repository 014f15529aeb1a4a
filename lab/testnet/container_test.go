package testnet

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/lab/emulate/web"
)

func TestReplica(t *testing.T) {
	for name, want := range map[string]int{
		"peerd_site_3.peerd_web.":       3,
		"peerd-ci-7-site-12.peerd_web.": 12,
		"0123abcd_peerd_site_2":         2,
		"site.peerd_web":                0,
		"peerd_site_0.peerd_web":        0,
		"":                              0,
	} {
		if got, err := replica(name); got != want || (err == nil) != (want > 0) {
			t.Errorf("replica(%q) = %d, %v; want %d", name, got, err, want)
		}
	}
}

// Each site has a /24 of its own, and none is the first, in which the engine assigns addresses,
// or that of the name server.
func TestContainerAddresses(t *testing.T) {
	network := netip.MustParsePrefix("10.78.0.0/16")
	seen := map[netip.Prefix]bool{
		netip.MustParsePrefix("10.78.0.0/24"):             true,
		netip.PrefixFrom(namesAddr(network), 24).Masked(): true,
	}
	if len(seen) != 2 {
		t.Error("the name server is where the engine assigns addresses")
	}
	for i := range maxContainers {
		p := netip.PrefixFrom(siteAddr(network, i), 24).Masked()
		if seen[p] || !network.Contains(p.Addr()) {
			t.Errorf("site %d is in %s", i, p)
		}
		seen[p] = true
	}
}

// Collect judges what several sites have seen together: pages that were not fetched, or that a
// site without an answer has, are missing, and pages fetched twice, or too early, count.
func TestCollect(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var g errgroup.Group
	defer func() {
		stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var at []netip.AddrPort
	for number, fetches := range []int{1, 2} {
		w, err := web.New(web.Config{
			Sites: 3, Pages: 3, Seed: 1, Bind: "127.0.0.1:0", MinDelay: time.Hour,
			Addrs: func(i int) []netip.Addr {
				return []netip.Addr{netip.AddrFrom4([4]byte{127, 90, byte(i), 10})}
			},
			Serve: func(i int) bool { return i == number },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Listen(); err != nil {
			t.Fatal(err)
		}
		g.Go(func() error { return w.Run(ctx) })
		at = append(at, w.BindAddr())
		site := w.Sites()[number]
		for range fetches {
			fetchPage(t, site.Host, netip.AddrPortFrom(site.Addrs[0], uint16(w.Port())))
		}
	}
	r, err := collect(t.Context(), at, Distances{}, Bounds{Overlap: 0.4})
	if err != nil {
		t.Fatal(err)
	}
	if r.Sites != 3 || r.PagesExpected != 3 || r.PagesFetched != 2 || r.Overlap != 0.5 ||
		r.Peers != 1 {
		t.Errorf("collect() = %+v, want 2 of 3 pages at 3 sites, overlap 0.5, 1 peer", r)
	}
	const want = "fell short: coverage 0.6667, want 1; overlap 0.5000, want at most 0.4; " +
		"1 politeness violations, want 0; " +
		"2 sites answered, want 3"
	if got := r.Conclusion(); got != want {
		t.Errorf("Conclusion() = %q, want %q", got, want)
	}
	r, err = collect(t.Context(), at, Distances{}, Bounds{Overlap: 0.5, Early: 1})
	if got := r.Conclusion(); err != nil || got != "fell short: coverage 0.6667, want 1; "+
		"2 sites answered, want 3" {
		t.Errorf("Conclusion() within the bounds = %q, %v", got, err)
	}
	r.Shortfalls = nil
	if got := r.Conclusion(); !strings.Contains(got, "1 violations of politeness, none of rob") {
		t.Errorf("Conclusion() = %q, want the violation", got)
	}
	if table := r.Table(); strings.Contains(table, "oracle") || strings.Contains(table, "probes") {
		t.Errorf("the table has figures that the sites do not know:\n%s", table)
	}
}

func fetchPage(t *testing.T, host string, at netip.AddrPort) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host, req.Close = host, true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("get %s: %s", host, resp.Status)
	}
}
