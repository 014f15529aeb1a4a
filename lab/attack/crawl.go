package attack

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"peerd/node"
)

// Attacks of peers on what others fetch.

func crawlAttacks() []Attack {
	return []Attack{
		{
			Name: "robots-lie", Unit: "pages not fetched, of 30",
			Does: "says of every page that it is asked for that robots.txt forbids it",
			By: "an owner reads the robots.txt itself, and does not ask again who says " +
				"otherwise",
			run: lieAboutRobots,
		},
		{
			Name: "empty-pages", Unit: "pages not fetched, of 30", Slow: true,
			Does: "answers every estimation at once with a made-up empty page; if it is given " +
				"the subnet for its speed, it fetches nothing",
			By: "the owner fetches a part of the pages itself, and all until a report of a peer " +
				"has agreed; a liar is not asked, and gets no subnet",
			run: makeUpPages,
		},
		{
			Name: "junk-urls", Unit: "times as long for the real pages", Limit: 3,
			Does: "sends 20,000 URLs that do not exist of a site that is being crawled",
			By: "the finders of a host's URLs take turns; one that finds missing pages " +
				"gets a quarter of the others' share",
			run: sendJunk,
		},
	}
}

// lying starts an honest peer and one for which a handler stands for all web sites, and has the
// honest one crawl a site. The strategy is random, so that both are chosen.
func (e *arena) lying(sites http.Handler) (s *site, v *node.Node, err error) {
	if s, err = e.site(7, 30); err != nil {
		return nil, nil, err
	}
	vs, err := e.peers(1)
	if err != nil {
		return nil, nil, err
	}
	for range 2 {
		if _, err = e.liar(sites); err != nil {
			return nil, nil, err
		}
	}
	if err = e.until("the peers know each other", func() bool {
		return vs[0].Status().Directory == 2
	}); err != nil {
		return nil, nil, err
	}
	_, err = vs[0].Seed(e.ctx, []string{s.url("/p0")})
	return s, vs[0], err
}

func lieAboutRobots(e *arena) (outcome, error) {
	var asked atomic.Int64
	s, v, err := e.lying(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("User-agent: *\nDisallow: /\n"))
	}))
	if err != nil {
		return outcome{}, err
	}
	e.within(25*time.Second, func() bool { return s.fetched() == 30 })
	if asked.Load() == 0 {
		return outcome{}, fmt.Errorf("attack: no liar was asked")
	}
	return outcome{float64(30 - s.fetched()), fmt.Sprintf("%d URLs given up for robots.txt, %d "+
		"requests by liars", v.Status().RobotsDenied, asked.Load())}, nil
}

// emptyPages answers for all sites.
func emptyPages(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	_, _ = w.Write([]byte("<p>empty"))
}

func makeUpPages(e *arena) (outcome, error) {
	s, v, err := e.lying(http.HandlerFunc(emptyPages))
	if err != nil {
		return outcome{}, err
	}
	e.within(25*time.Second, func() bool { return s.fetched() == 30 })
	owner := "a liar"
	if e.owner(s) == v {
		owner = "the honest peer"
	}
	return outcome{float64(30 - s.fetched()), "the owner in the end is " + owner}, nil
}

func sendJunk(e *arena) (outcome, error) {
	const pages = 40
	s, err := e.site(8, pages)
	if err != nil {
		return outcome{}, err
	}
	e.gap = 100 * time.Millisecond
	vs, err := e.peers(1)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	if err := m.introduce(vs[0], nil); err != nil {
		return outcome{}, err
	}
	if err := e.crawl(vs[0], s); err != nil {
		return outcome{}, err
	}
	begin := time.Now()
	var g sync.WaitGroup
	var sent int
	g.Go(func() {
		for i := 0; i < 20 && e.ctx.Err() == nil; i++ {
			urls := make([]string, 1000)
			for j := range urls {
				urls[j] = s.url(fmt.Sprintf("/junk%d-%d", i, j))
			}
			if _, err := m.batch(vs[0], s.host, s.addr.Addr(), urls); err == nil {
				sent += len(urls)
			}
		}
	})
	g.Wait()
	alone := pages * e.gap
	late := func() bool { // a page that a real page links to, found while the junk waits
		return s.fetched() >= pages
	}
	e.within(5*alone, late)
	took := time.Since(begin)
	return outcome{took.Seconds() / alone.Seconds(), fmt.Sprintf("%d URLs sent; %d of %d pages "+
		"after %v", sent, s.fetched(), pages, took.Round(time.Second))}, nil
}
