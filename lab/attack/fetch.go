package attack

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"peerd/node/config"
	"peerd/overlay/lease"
	"peerd/store"
)

// Attacks that make honest peers send requests to third parties.

func fetchAttacks() []Attack {
	return []Attack{
		{
			Name: "fetch-orders", Unit: "requests/s at a site", Limit: 2.5,
			Does: "claims the subnet of a third party and orders fetches there from three peers, " +
				"20 at once each, also of URLs that robots.txt forbids",
			By: "every peer keeps the clocks of hosts, addresses and networks, and robots.txt, " +
				"for orders as for itself; orders in a subnet are 4 s apart, and eight at first",
			run: orderFetches,
		},
		{
			Name: "wrong-address", Unit: "connections to the third party",
			Does: "orders fetches of a host at an address that is not one of the host's",
			By:   "the peer that fetches looks the host up itself",
			run:  orderElsewhere,
		},
		{
			Name: "literals", Unit: "requests/s in a /24", Limit: 12, Slow: true,
			Does: "links to 200 addresses of one /24 in one page",
			By:   "64 literals a page; a clock for each /24 and /48 (crawl.network_rate, 10/s)",
			run:  linkLiterals,
		},
		{
			Name: "own-network", Unit: "connections to the local service",
			Does: "sends URLs and orders with addresses of the victim's own machine",
			By:   "the guard refuses addresses that are not public, at the dial",
			run:  reachLocal,
		},
	}
}

// rate returns the largest number of requests in any five seconds, by second.
func rate(hits []hit) float64 {
	most := 0
	for i, h := range hits {
		n := 0
		for _, other := range hits[i:] {
			if other.at.Sub(h.at) < 5*time.Second {
				n++
			}
		}
		most = max(most, n)
	}
	return float64(most) / 5
}

// order asks peers to fetch URLs of a site, several at once each, for some time. It returns how
// many answers were no refusals.
func (m *member) order(s *site, sealed []byte, at netip.Addr, atOnce int, d time.Duration) int {
	until := time.Now().Add(d)
	var mu sync.Mutex
	var g sync.WaitGroup
	done := 0
	for _, v := range m.e.nodes {
		for worker := range atOnce {
			g.Go(func() {
				for i := 0; time.Now().Before(until) && m.e.ctx.Err() == nil; i++ {
					path := fmt.Sprintf("/x%d-%d", worker, i)
					if i%2 == 1 {
						path = "/private" + path
					}
					answer, err := m.ask(v, m.e.names.Estimate(), fields{1: sealed,
						2: fields{1: s.url(path), 2: at}}, false, true)
					mu.Lock()
					if _, refused := answer[1]; err == nil && !refused {
						done++
					}
					mu.Unlock()
				}
			})
		}
	}
	g.Wait()
	return done
}

func orderFetches(e *arena) (outcome, error) {
	e.gap = time.Second
	s, err := e.site(3, 1)
	if err != nil {
		return outcome{}, err
	}
	s.put("/robots.txt", "User-agent: *\nDisallow: /private\n")
	m, sealed, err := e.ownThirdParty(s)
	if err != nil {
		return outcome{}, err
	}
	done := m.order(s, sealed, s.addr.Addr(), 20, 12*time.Second)
	hits, forbidden, robots := s.all(), 0, 0
	for _, h := range hits {
		if strings.HasPrefix(h.path, "/private") {
			forbidden++
		} else if h.path == "/robots.txt" {
			robots++
		}
	}
	got := outcome{rate(hits), fmt.Sprintf("%d requests, %d of them for robots.txt, %d forbidden; "+
		"%d reports", len(hits), robots, forbidden, done)}
	if forbidden > 0 {
		got.effect = float64(len(hits))
	}
	if done == 0 {
		return got, fmt.Errorf("attack: no order was carried out: %s", got.detail)
	}
	return got, nil
}

// ownThirdParty starts three honest peers and a member that owns the subnet of a site by its own
// claim.
func (e *arena) ownThirdParty(s *site) (*member, []byte, error) {
	if _, err := e.peers(3); err != nil {
		return nil, nil, err
	}
	m, err := e.member()
	if err != nil {
		return nil, nil, err
	}
	p := store.SubnetOf(s.addr.Addr())
	_, sealed, err := e.claim(p, m.identity)
	if err != nil {
		return nil, nil, err
	}
	if m.put(lease.Key(p), sealed) == 0 {
		return nil, nil, fmt.Errorf("attack: no peer has stored the claim of %v", p)
	}
	return m, sealed, nil
}

func orderElsewhere(e *arena) (outcome, error) {
	s, err := e.site(4, 1)
	if err != nil {
		return outcome{}, err
	}
	m, sealed, err := e.ownThirdParty(s)
	if err != nil {
		return outcome{}, err
	}
	if m.order(s, sealed, s.addr.Addr(), 1, time.Second) == 0 {
		return outcome{}, fmt.Errorf("attack: the right address was not fetched either")
	}
	if err := e.sleep(time.Second); err != nil { // requests that are under way
		return outcome{}, err
	}
	e.resolve("elsewhere.test", netip.MustParseAddr("127.32.1.1"))
	before := len(s.all())
	m.order(&site{host: "elsewhere.test", addr: s.addr}, sealed, s.addr.Addr(), 2, 2*time.Second)
	return outcome{float64(len(s.all()) - before), fmt.Sprintf("%d requests before", before)}, nil
}

func linkLiterals(e *arena) (outcome, error) {
	s, err := e.site(5, 1)
	if err != nil {
		return outcome{}, err
	}
	all, err := newSite("literals", netip.IPv4Unspecified(), 0)
	if err != nil {
		return outcome{}, err
	}
	e.closers = append(e.closers, all.close)
	var page strings.Builder
	for i := range 200 {
		fmt.Fprintf(&page, "<a href=http://127.33.1.%d:%d/p>x</a>", i+1, all.addr.Port())
	}
	all.put("/p", "a page")
	s.put("/p0", page.String())
	vs, err := e.peers(2)
	if err != nil {
		return outcome{}, err
	}
	if _, err := vs[0].Seed(e.ctx, []string{s.url("/p0")}); err != nil {
		return outcome{}, err
	}
	if err := e.until("the first literal is fetched", func() bool {
		return len(all.all()) > 0
	}); err != nil {
		return outcome{}, err
	}
	if err := e.sleep(12 * time.Second); err != nil {
		return outcome{}, err
	}
	hits := all.all()
	addrs := map[netip.Addr]bool{}
	for _, h := range hits {
		addrs[h.addr] = true
	}
	return outcome{rate(hits), fmt.Sprintf("%d requests to %d addresses", len(hits),
		len(addrs))}, nil
}

func reachLocal(e *arena) (outcome, error) {
	local, err := newSite("127.0.0.1", netip.MustParseAddr("127.0.0.1"), 3)
	if err != nil {
		return outcome{}, err
	}
	e.closers = append(e.closers, local.close)
	v, err := e.peer(func(c *config.Config) { c.Crawl.AllowNet = nil }, nil)
	if err != nil {
		return outcome{}, err
	}
	m, err := e.member()
	if err != nil {
		return outcome{}, err
	}
	e.resolve("local.test", local.addr.Addr())
	p := store.SubnetOf(local.addr.Addr())
	_, sealed, err := e.claim(p, m.identity)
	if err != nil {
		return outcome{}, err
	}
	m.put(lease.Key(p), sealed)
	m.order(local, sealed, local.addr.Addr(), 2, time.Second)
	result, err := m.batch(v, "127.0.0.1", local.addr.Addr(), []string{local.url("/p0")})
	if err != nil {
		return outcome{}, err
	}
	port := local.addr.Port()
	for _, u := range []string{local.url("/p0"), fmt.Sprintf("http://local.test:%d/", port),
		fmt.Sprintf("http://[::ffff:127.0.0.1]:%d/", port),
		fmt.Sprintf("http://0x7f.1:%d/", port)} {
		if _, err := v.Seed(e.ctx, []string{u}); err != nil {
			return outcome{}, err
		}
	}
	err = e.sleep(3 * time.Second)
	return outcome{float64(len(local.all())), fmt.Sprintf("result of the batch: %v", result)}, err
}
