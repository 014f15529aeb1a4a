package attack

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"peerd/node"
	"peerd/node/config"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
	"peerd/store"
)

// Attacks of many peers on one.

func victimAttacks() []Attack {
	return []Attack{{
		Name: "one-victim", Unit: "requests beyond a limit, and honest pages missing", Slow: true,
		Does: "20 peers send 1,000,000 URLs of 24 sites and of made-up hosts to one peer, and " +
			"order fetches of the same sites",
		By: "the clocks of hosts, addresses and networks, robots.txt, and the limits on orders; " +
			"finders of a host's URLs take turns; what is pending is on disk",
		run: func(e *arena) (outcome, error) { return e.overwhelm(1_000_000) },
	}}
}

const (
	attackers = 20
	// batches is how many batches they send together, and aliases how many made-up hosts have the
	// address of a real one.
	batches, aliases = 1000, 4
	// sitePages are the pages that the first page of each site links to, and latePages those that
	// the victim's operator adds in the middle of the attack.
	sitePages, latePages = 8, 4
	// ordersAtOnce is how many orders each owner of a third party's subnet has under way.
	ordersAtOnce = 5
)

// victimSites are the sites of an attack on one victim.
type victimSites struct {
	e      *arena
	own    []*site               // in subnets of the victim
	third  []*site               // in subnets that attackers have claimed
	at     map[*site]netip.Addr  // of each, as the peers know it
	real   map[netip.Addr]string // loopback addresses that stand for IPv6 addresses
	alias  []string              // made-up hosts that have the address of the first site
	config config.Config
}

// newVictimSites starts six hosts at one address, six addresses in one /24, four in a /64 and two
// in another one of the same /48; and three addresses in a /24 and three in a /64 of third parties.
func newVictimSites(e *arena) (*victimSites, error) {
	f := &victimSites{e: e, at: map[*site]netip.Addr{}, real: map[netip.Addr]string{}}
	var errs error
	add := func(to *[]*site, format string, n int, at func(i int) netip.Addr) {
		for i := range n {
			host, addr := fmt.Sprintf(format, i), at(i)
			if errs == nil {
				errs = f.add(to, host, addr)
			}
		}
	}
	v4 := func(net byte) func(i int) netip.Addr {
		return func(i int) netip.Addr {
			return netip.AddrFrom4([4]byte{127, 60, net, byte(10 + i)})
		}
	}
	v6 := func(net string) func(i int) netip.Addr {
		return func(i int) netip.Addr {
			return netip.MustParseAddr(fmt.Sprintf("%s::%d", net, 10+i))
		}
	}
	add(&f.own, "host%d.one-address.test", 6, func(int) netip.Addr { return v4(1)(0) })
	add(&f.own, "addr%d.one-net.test", 6, v4(2))
	add(&f.own, "a%d.one-net6.test", 4, v6("fd00:60:1:1"))
	add(&f.own, "b%d.one-net6.test", 2, v6("fd00:60:1:2"))
	add(&f.third, "addr%d.third.test", 3, v4(3))
	add(&f.third, "a%d.third6.test", 3, v6("fd00:60:2:1"))
	if errs != nil {
		return nil, errs
	}
	for i := range aliases {
		f.alias = append(f.alias, fmt.Sprintf("www.alias%d.test", i))
		e.resolve(f.alias[i], f.at[f.own[0]])
	}
	return f, nil
}

// add starts a site. At an IPv6 address it listens on a loopback address that stands for it.
func (f *victimSites) add(to *[]*site, host string, at netip.Addr) error {
	listen := at
	if at.Is6() {
		listen = netip.AddrFrom4([4]byte{127, 61, 0, byte(len(f.real) + 1)})
	}
	s, err := newSite(host, listen, sitePages)
	if err != nil {
		return err
	}
	f.e.closers = append(f.e.closers, s.close)
	f.e.resolve(host, at)
	if at.Is6() {
		f.real[at] = listen.String()
	}
	s.put("/robots.txt", "User-agent: *\nDisallow: /private\n")
	for i := range latePages {
		s.put(fmt.Sprintf("/late%d", i), fmt.Sprintf("<p>Late page %d of %s.", i, host))
	}
	*to, f.at[s] = append(*to, s), at
	return nil
}

// dial connects to a site.
func (f *victimSites) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	if real, ok := f.real[at.Addr()]; ok {
		network, addr = "tcp", fmt.Sprintf("%s:%d", real, at.Port())
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// overwhelm has attackers send n URLs to one peer, and order fetches meanwhile.
func (e *arena) overwhelm(n int) (outcome, error) {
	e.gap = 100 * time.Millisecond
	e.keep = true // else the victim asks the attackers for pages
	e.alone = true
	config.Default().LimitMemory() // as the program does
	defer debug.SetMemoryLimit(math.MaxInt64)
	defer wire.LimitMemory(usual)
	f, err := newVictimSites(e)
	if err != nil {
		return outcome{}, err
	}
	v, err := e.peer(func(c *config.Config) {
		c.Crawl.AllowNet = append(c.Crawl.AllowNet, netip.MustParsePrefix("fd00::/8"))
		f.config = *c
	}, f.dial)
	if err != nil {
		return outcome{}, err
	}
	var seeds, late []string
	for _, s := range f.own {
		seeds = append(seeds, s.url("/p0"))
		for i := range latePages {
			late = append(late, s.url(fmt.Sprintf("/late%d", i)))
		}
	}
	if err := e.seed(v, seeds); err != nil {
		return outcome{}, err
	}
	err = e.until("the victim owns the sites", func() bool {
		return !slices.ContainsFunc(f.own, func(s *site) bool { return s.fetched() == 0 })
	})
	if err != nil {
		return outcome{}, err
	}
	var all []*member
	for range attackers { // none introduces itself: the victim would name them as its replicas
		m, err := e.member()
		if err != nil {
			return outcome{}, err
		}
		all = append(all, m)
	}
	return f.attack(v, all, n, late)
}

// seed adds URLs as the operator of a peer.
func (e *arena) seed(v *node.Node, urls []string) error {
	r, err := v.Seed(e.ctx, urls)
	if err == nil && r.Accepted != len(urls) {
		err = fmt.Errorf("attack: not all seeds were accepted: %+v", r)
	}
	return err
}

// attack carries out the attack, with the operator's late seeds in its middle, and judges it when
// all honest pages are fetched, or after minutes in vain.
func (f *victimSites) attack(
	v *node.Node, all []*member, n int, late []string,
) (outcome, error) {
	leases, err := f.claim(all)
	if err != nil {
		return outcome{}, err
	}
	begin := time.Now()
	var sending, ordering sync.WaitGroup
	var sent, acknowledged, reports atomic.Int64
	var ended atomic.Bool
	most := f.watchMemory(&ended)
	for i, m := range all {
		sending.Go(func() {
			for k := i; k < batches && f.e.ctx.Err() == nil; k += len(all) {
				acknowledged.Add(int64(f.send(m, v, k, n/batches)))
				sent.Add(int64(n / batches))
			}
		})
		ordering.Go(func() { reports.Add(f.order(m, leases, i, &ended)) })
	}
	half := func() bool { return sent.Load() >= int64(n/2) }
	for !half() && f.e.sleep(20*time.Millisecond) == nil {
	}
	seeded := time.Now()
	err = f.e.seed(v, late)
	sending.Wait()
	sendingTook := time.Since(begin)
	f.e.within(10*time.Minute, func() bool { return f.missing() == 0 })
	found := time.Since(seeded)
	ended.Store(true)
	ordering.Wait()
	if err != nil || f.e.ctx.Err() != nil {
		return outcome{}, cmp.Or(err, context.Cause(f.e.ctx))
	}
	if acknowledged.Load() == 0 || reports.Load() == 0 {
		return outcome{}, fmt.Errorf("attack: %d URLs were acknowledged and %d orders carried out",
			acknowledged.Load(), reports.Load())
	}
	got := f.judge(most())
	got.detail = fmt.Sprintf("%d URLs sent in %v, %d acknowledged; %d reports of orders; late "+
		"pages after %v; %s", sent.Load(), sendingTook.Round(time.Second), acknowledged.Load(),
		reports.Load(), found.Round(time.Second), got.detail)
	return got, nil
}

// missing returns how many honest pages of the victim's sites were not requested.
func (f *victimSites) missing() (n int) {
	for _, s := range f.own {
		n += sitePages + latePages - s.fetched()
	}
	return n
}

// claim has two of the attackers claim the subnets of the third parties. It returns the leases.
func (f *victimSites) claim(all []*member) (map[netip.Prefix][]byte, error) {
	leases := map[netip.Prefix][]byte{}
	for _, s := range f.third {
		p := store.SubnetOf(f.at[s])
		if leases[p] != nil {
			continue
		}
		m := all[len(leases)]
		_, sealed, err := f.e.claim(p, m.identity)
		if err != nil {
			return nil, err
		}
		if m.put(lease.Key(p), sealed) == 0 {
			return nil, fmt.Errorf("attack: no peer has stored the claim of %v", p)
		}
		leases[p] = sealed
	}
	return leases, nil
}

// send sends batch k of n URLs, and returns how many were acknowledged. Of four batches two are of
// the sites, one of hosts at the address of one of them, and one of hosts that do not exist, with
// five URLs each.
func (f *victimSites) send(m *member, v *node.Node, k, n int) (acknowledged int) {
	sites := slices.Concat(f.own, f.third)
	s := sites[k/4%len(sites)]
	var groups []any
	switch k % 4 {
	case 0, 1:
		groups = append(groups, f.group(s, s.host, k, n))
	case 2:
		groups = append(groups, f.group(f.own[0], f.alias[k/4%len(f.alias)], k, n))
	default:
		for i := range n / 5 {
			groups = append(groups, f.group(s, fmt.Sprintf("h%d-%d.nowhere.test", k, i), k, 5))
		}
	}
	answer, err := m.ask(v, f.e.names.Batch(), fields{1: groups}, true, false)
	if err != nil {
		return 0
	}
	results, _ := answer[1].([]byte)
	for _, r := range results {
		if r == 1 {
			acknowledged += n / len(groups)
		}
	}
	return acknowledged
}

// group returns URLs of a host at the address and port of a site; robots.txt forbids every fourth.
func (f *victimSites) group(s *site, host string, k, n int) any {
	urls := make([]any, n)
	for i := range urls {
		path := fmt.Sprintf("/junk%d/%d", k, i)
		if i%4 == 3 {
			path = "/private" + path
		}
		urls[i] = fields{1: fmt.Sprintf("http://%s:%d%s", host, s.addr.Port(), path)}
	}
	return fields{1: host, 2: store.SubnetOf(f.at[s]), 3: f.at[s], 4: urls}
}

// order orders fetches of all sites until the attack ends: of a third party as the owner of its
// subnet, of which the others show the lease; of the victim's sites also with such a lease. It
// returns how many answers were reports.
func (f *victimSites) order(
	m *member, leases map[netip.Prefix][]byte, i int, ended *atomic.Bool,
) (reports int64) {
	sites := slices.Concat(f.third, f.own)
	anyLease := leases[store.SubnetOf(f.at[f.third[0]])]
	var done atomic.Int64
	each(ordersAtOnce, func(worker int) {
		for k := i + worker; !ended.Load() && f.e.sleep(100*time.Millisecond) == nil; k++ {
			s := sites[k%len(sites)]
			sealed := leases[store.SubnetOf(f.at[s])]
			if sealed == nil {
				sealed = anyLease
			}
			path := fmt.Sprintf("/x%d-%d-%d", i, worker, k)
			if k%2 == 1 {
				path = "/private" + path
			}
			answer, err := m.ask(f.e.nodes[0], f.e.names.Estimate(), fields{1: sealed,
				2: fields{1: s.url(path), 2: f.at[s]}}, false, true)
			if _, refused := answer[1]; err == nil && !refused {
				done.Add(1)
			}
		}
	})
	return done.Load()
}

// watchMemory samples the resident memory of this process until the attack ends. The result
// is a function that returns the largest.
func (f *victimSites) watchMemory(ended *atomic.Bool) func() int64 {
	var most atomic.Int64
	f.e.running.Go(func() {
		for !ended.Load() && f.e.sleep(50*time.Millisecond) == nil {
			most.Store(max(most.Load(), resident()))
		}
	})
	return most.Load
}

// resident returns the resident memory of this process in bytes; 0 if the system does not say.
func resident() int64 {
	var total, pages int64
	raw, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(raw), &total, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// judge reads the sites' logs.
func (f *victimSites) judge(mem int64) outcome {
	var hits []hit
	for _, s := range slices.Concat(f.own, f.third) {
		for _, h := range s.all() {
			h.addr = f.at[s]
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return a.at.Compare(b.at) })
	forbidden := 0
	for _, h := range hits {
		if strings.HasPrefix(h.path, "/private") {
			forbidden++
		}
	}
	gap := f.config.Crawl.MinDelay.Duration
	hosts := early(hits, gap, func(h hit) string { return h.host })
	addrs := early(hits, gap, func(h hit) string { return h.addr.String() })
	net24, net64, net48 := worst(hits, 24), worst(hits, 64), worst(hits, 48)
	over := 0.0
	for _, x := range []float64{net24, net64, net48} {
		over += max(0, 5*(x-f.config.Crawl.NetworkRate)-1) // five seconds have one more at an end
	}
	missing := f.missing()
	effect := float64(hosts+addrs+forbidden+missing) + over
	if mem > 2*int64(f.config.Memory) {
		effect++
	}
	return outcome{effect, fmt.Sprintf("%d requests; too early: %d at a host, %d at an address; "+
		"%d forbidden; at most %.1f/s in a /24, %.1f/s in a /64, %.1f/s in a /48; %d of %d pages "+
		"missing; %d MiB resident with the attackers, memory is %d MiB", len(hits), hosts, addrs,
		forbidden, net24, net64, net48, missing, len(f.own)*(sitePages+latePages), mem>>20,
		int64(f.config.Memory)>>20)}
}

// early counts the requests that came within a gap of the one before with the same key.
func early(hits []hit, gap time.Duration, key func(hit) string) (n int) {
	last := map[string]time.Time{}
	for _, h := range hits {
		k := key(h)
		if at, ok := last[k]; ok && h.at.Sub(at) < gap {
			n++
		}
		last[k] = h.at
	}
	return n
}

// worst returns the highest rate in an IPv4 /24, or in an IPv6 network of that many bits.
func worst(hits []hit, bits int) (most float64) {
	nets := map[netip.Prefix][]hit{}
	for _, h := range hits {
		if p, err := h.addr.Prefix(bits); err == nil && h.addr.Is4() == (bits == 24) {
			nets[p] = append(nets[p], h)
		}
	}
	for _, all := range nets {
		most = max(most, rate(all))
	}
	return most
}
