package attack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"peerd/crawl/deny"
	"peerd/node"
	"peerd/node/config"
	"peerd/overlay"
	"peerd/store"
)

// Attacks by pings of web sites.

func pingAttacks() []Attack {
	return []Attack{{
		Name: "forged-pings", Unit: "requests too many, or true pings without effect", Limit: 0,
		Slow: true,
		Does: "sends forged pings of two sites for half a minute, from eight networks to the " +
			"pages of all peers, and straight to the owner: of many keys, files and ports; one " +
			"of the sites sends true ones, too",
		By: "only the owner reads the file of a key, of each host one a minute and later one an " +
			"hour; before that no page is requested, and a key that was read before still counts",
		run: forgePings,
	}}
}

const (
	pingedPages = 20
	trueKey     = "0123456789abcdef"
	pingsFor    = 30 * time.Second
)

// pagePeers starts honest peers that visit pages again, and returns the addresses of their pages
// for web sites.
func (e *arena) pagePeers(n int) (all []*node.Node, pages []string, err error) {
	e.profile.Revisit.Enabled = true
	if e.names, err = overlay.NewNames(e.profile.NetworkID()); err != nil {
		return nil, nil, err
	}
	for range n {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		at := free.Addr().String()
		if err := free.Close(); err != nil {
			return nil, nil, err
		}
		v, err := e.peer(func(c *config.Config) { c.Page.Listen = at }, nil)
		if err != nil {
			return nil, nil, err
		}
		all, pages = append(all, v), append(pages, at)
	}
	return all, pages, e.until("all peers know each other", func() bool {
		return all[0].Status().Directory == n-1
	})
}

// ping sends a ping of a page to the page of a peer from an address, and returns the status.
func (e *arena) ping(from netip.Addr, to, page, key, file string) (status int, err error) {
	q := url.Values{"url": {page}, "key": {key}}
	if file != "" {
		q.Set("keyLocation", file)
	}
	ctx, cancel := context.WithTimeout(e.ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to+"/indexnow?"+q.Encode(),
		nil)
	if err != nil {
		return 0, err
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	client := http.Client{Transport: &http.Transport{DialContext: d.DialContext,
		DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// notices sends forged notices of pages of a host straight to a peer.
func (s *stranger) notices(to *node.Node, host string, at netip.Addr, urls []string) error {
	items := make([]any, len(urls))
	for i, u := range urls {
		items[i] = fields{1: u, 4: store.KindPinged}
	}
	_, err := s.ask(to, s.e.names.Batch(), fields{1: []any{fields{1: host, 2: store.SubnetOf(at),
		3: at, 4: items}}}, true, false)
	return err
}

// asked returns how many requests a host got on all of its ports, but for robots.txt and opt-outs.
func asked(servers ...*site) (n int) {
	for _, s := range servers {
		for _, h := range s.all() {
			if h.path != "/robots.txt" && h.path != deny.OptOutPath {
				n++
			}
		}
	}
	return n
}

// forgeries sends the ith forged ping of a host with two ports to the page of a peer, or in a
// notice to the owner of the subnet.
func (s *stranger) forgeries(i int, page string, owner *node.Node, port, other *site) (err error) {
	key, file, at := fmt.Sprintf("forged-key-%d", i), "", port
	switch i % 5 {
	case 1:
		if port.pages["/"+trueKey+".txt"] == "" {
			key = trueKey // of another site
		}
	case 2:
		file = port.url(fmt.Sprintf("/p%d", i%pingedPages))
	case 3:
		at = other
	case 4:
		key += "-of-another-port"
		at = &site{host: port.host, addr: netip.AddrPortFrom(port.addr.Addr(), uint16(1+i))}
	}
	u := at.url(fmt.Sprintf("/p%d", i%(2*pingedPages))) // half of them do not exist
	from := netip.AddrFrom4([4]byte{127, 77, byte(i % 8), 1})
	if _, err := s.e.ping(from, page, u, key, file); err != nil {
		return err
	}
	return s.notices(owner, at.host, at.addr.Addr(), []string{u + "#" + key + "-straight"})
}

// pingedSites starts two hosts with a site each, and another one without pages at another port. The
// first has the file of a key.
func (e *arena) pingedSites() (servers [2][2]*site, err error) {
	for i := range servers {
		at := netip.AddrFrom4([4]byte{127, 30, byte(50 + i), 7})
		for j, n := range []int{pingedPages, 0} {
			s, err := e.siteAt(fmt.Sprintf("pinged%d.test", i), at, n)
			if err != nil {
				return servers, err
			}
			servers[i][j] = s
		}
	}
	servers[0][0].put("/"+trueKey+".txt", trueKey)
	return servers, nil
}

// crawlAll has a peer crawl all pages of a site.
func (e *arena) crawlAll(by *node.Node, s *site) error {
	if err := e.crawl(by, s); err != nil {
		return err
	}
	return e.until("all pages are fetched", func() bool { return s.fetched() == pingedPages })
}

// truePing sends a true ping of the page /p1 of a site, and reports whether it is visited.
func (e *arena) truePing(s *site, to string) (visited bool, err error) {
	visits := func() (n int) {
		for _, h := range s.all() {
			if h.path == "/p1" {
				n++
			}
		}
		return n
	}
	own, before := netip.MustParseAddr("127.0.0.1"), visits()
	err = e.until("a true ping is taken", func() bool {
		status, err := e.ping(own, to, s.url("/p1"), trueKey, "")
		return err == nil && status == http.StatusAccepted
	})
	return err == nil && e.within(15*time.Second, func() bool { return visits() > before }), err
}

func forgePings(e *arena) (outcome, error) {
	servers, err := e.pingedSites()
	if err != nil {
		return outcome{}, err
	}
	vs, pages, err := e.pagePeers(2)
	if err != nil {
		return outcome{}, err
	}
	known, keyless := servers[0][0], servers[1][0]
	if err := errors.Join(e.crawlAll(vs[0], known), e.crawlAll(vs[0], keyless)); err != nil {
		return outcome{}, err
	}
	m, err := e.stranger()
	if err != nil {
		return outcome{}, err
	}
	if err := m.introduce(vs[0], nil); err != nil {
		return outcome{}, err
	}
	before := [2]int{asked(known), asked(keyless)}
	begin := time.Now()
	sent, forged, missed := 0, 0, 0
	for time.Since(begin) < pingsFor && e.ctx.Err() == nil {
		if time.Since(begin) >= time.Duration(sent)*pingsFor/3 {
			sent++
			visited, err := e.truePing(known, pages[1])
			if err != nil {
				return outcome{}, err
			}
			if !visited {
				missed++
			}
		}
		for i, s := range servers {
			owner := e.owner(s[0])
			if owner == nil {
				return outcome{}, fmt.Errorf("attack: no peer owns %s", s[0].host)
			}
			if m.forgeries(forged, pages[(forged+i)%2], owner, s[0], s[1]) == nil {
				forged++
			}
		}
		if err := e.sleep(50 * time.Millisecond); err != nil {
			return outcome{}, err
		}
	}
	_ = e.sleep(2 * time.Second) // what is still to be requested
	if forged == 0 {
		return outcome{}, errors.New("attack: no forged ping was taken")
	}
	excess, detail := missed, ""
	for i, s := range servers {
		n := asked(s[0], s[1]) - before[i]
		if i == 0 {
			n -= sent - missed
		}
		excess += max(n-1-int(time.Since(begin)/time.Minute), 0)
		detail += fmt.Sprintf("; %s: %d requests for keys", s[0].host, n)
	}
	return outcome{float64(excess), fmt.Sprintf("%d forged pings, %d true ones of which %d had no "+
		"effect", forged, sent, missed) + detail}, nil
}
