//go:build integration

package attack

import (
	"testing"
	"time"

	"peerd/crawl/deny"
	"peerd/node"
)

// In a network of 20 peers, a site that opts out at any of them is left alone by all, and comes
// back when it withdraws. The site's log is the judge. Others are not affected.
func TestOptOut(t *testing.T) {
	e, err := newArena(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var sites []*site
	for i := range 4 {
		s, err := e.site(byte(40+i), 3000)
		fatal(err)
		sites = append(sites, s)
	}
	vs, err := e.peers(20)
	fatal(err)
	for i, s := range sites {
		fatal(e.crawl(vs[i], s))
	}
	out, origin := sites[0], sites[0].url("")
	var asked *node.Node // a peer that does not crawl the site
	for _, v := range vs {
		if v != e.owner(out) {
			asked = v
		}
	}
	if obeyed, err := asked.OptOut(t.Context(), origin); obeyed || err != nil {
		t.Fatalf("without a file: OptOut() = %v, %v", obeyed, err)
	}
	out.put(deny.OptOutPath, "crawler: peerd\n")
	at, others := time.Now(), sites[1].fetched()
	if obeyed, err := asked.OptOut(t.Context(), origin); !obeyed || err != nil {
		t.Fatalf("OptOut() = %v, %v", obeyed, err)
	}
	fatal(e.until("the site has been left alone for 20 s", func() bool {
		all := out.all()
		return time.Since(all[len(all)-1].at) > 20*time.Second
	}))
	all := out.all()
	after, reads := 0, 0
	for _, h := range all {
		switch {
		case h.at.Before(at):
		case h.path == deny.OptOutPath:
			reads++
		default:
			after++
		}
	}
	took := all[len(all)-1].at.Sub(at)
	t.Logf("last request %v after the file was there; %d requests for pages and %d for the file "+
		"since", took.Round(time.Millisecond), after, reads)
	if took > time.Minute {
		t.Errorf("last request after %v, want at most a minute", took)
	}
	if n := sites[1].fetched(); n <= others {
		t.Errorf("another site has %d pages fetched, as before", n)
	}
}
