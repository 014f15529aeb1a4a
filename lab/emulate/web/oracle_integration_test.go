//go:build integration

package web

import (
	"bytes"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/wan"
)

// A download over the emulated network takes at least PageTime, and at best hardly more.
func TestPageTimeIsWhatDownloadsTake(t *testing.T) {
	t.Parallel()
	world := wan.NewWorld(wan.Cities(), 5).Select([]int{9, 24}) // London, Tokyo
	net := wan.NewNetwork(world)
	defer net.Close()
	cfg := testConfig(1, 6, 3)
	cfg.Delay, cfg.World, cfg.Place = 30*ms, world, func(int, int) int { return 1 }
	w := serve(t, cfg)
	me, site := netip.MustParseAddr("127.211.0.1"), w.Resolve()["site-00.test"][0]
	net.Place(site, 1)
	dial := net.Dialer(0, me)
	tr := &http.Transport{Proxy: nil}
	tr.DialContext = dial
	c := &http.Client{Transport: tr}
	defer tr.CloseIdleConnections()

	reused := false
	var ratios []float64
	for u := range w.Pages() {
		path := u[strings.Index(u[7:], "/")+7:]
		req, _ := http.NewRequest(http.MethodGet, fmt.Sprintf("http://%v:%d%s", site, w.Port(),
			path), nil)
		req.Host = "site-00.test"
		want := w.PageTime(0, u, reused)
		start := time.Now()
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		resp.Body.Close()
		ratios = append(ratios, float64(time.Since(start))/float64(want))
		reused = true
	}
	t.Logf("measured over expected: %.3f", ratios)
	if best := slices.Min(ratios); best < 0.95 || best > 1.25 {
		t.Errorf("the best of %d downloads took %.2f of what was expected", len(ratios), best)
	}
	if hits := w.Log(); hits[0].Peer != me || hits[0].Reused || !hits[5].Reused {
		t.Errorf("%+v", hits)
	}
}
