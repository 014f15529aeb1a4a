package attack

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"peerd/lab/emulate/web"
	"peerd/lab/testnet"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay"
)

// NetworkOptions describe a network of which some peers are hostile.
type NetworkOptions struct {
	// Honest and Hostile are the numbers of peers. A third of the hostile ones are whole peers for
	// which a server of the attacker stands for all sites; the others are members.
	Honest, Hostile int
	Sites, Pages    int
	// For is how long the attacks take together, after Calm, in which the peers assign most
	// subnets.
	Calm, For time.Duration
	// Quiet leaves the attacks out, for a comparison. The hostile peers are then members that
	// behave.
	Quiet    bool
	Seed     uint64
	Progress io.Writer
	Logger   *slog.Logger
}

// A NetworkReport says what the attacks have achieved. The figures of Report are those of the
// honest peers.
type NetworkReport struct {
	testnet.Report
	// Steps has what was sent in each attack.
	Steps []string `json:"steps"`
	// Missing are the pages that were not fetched although an honest peer owns their host, and no
	// hostile one has owned it: that one may say that it has fetched them. Elsewhere are the others
	// that were not fetched.
	Missing   int `json:"missing"`
	Elsewhere int `json:"elsewhere"`
	// Taken are subnets that an honest peer has owned, and none of the peers owns in the end.
	Taken []string `json:"taken"`
	// Granted are those that a hostile peer owns in the end.
	Granted []string `json:"granted"`
	// PeakMiB is the largest resident memory of the process, which has all peers.
	PeakMiB float64 `json:"peak_mib"`
	// Asked says how many honest peers have asked each hostile peer for a page, LiesFound how many
	// of these have found at least one of its reports to be wrong, and LiarsFound how many take it
	// for a liar. The other honest peers have heard no lie: no peer believes what another one says
	// of a third, so that each has to find a liar itself, and only one that asks it can be harmed.
	// Whole peers come first; the others answer no request for a page.
	Asked      []int `json:"asked"`
	LiesFound  []int `json:"lies_found"`
	LiarsFound []int `json:"liars_found"`
	// Doubted is how long it took from an honest peer's first request to a hostile one, which is
	// not after its first lie there, to the check that found a lie: from then on its reports count
	// for nothing and it gets no subnet. Found is the same for the check that made it a liar, which
	// only an owner that fetches pages can carry out. The first request is noted too early by
	// watchTrust at most.
	Doubted Spread `json:"doubted"`
	Found   Spread `json:"found"`
	// HonestDoubted is how often an honest peer takes another one for a liar.
	HonestDoubted int `json:"honest_doubted"`
}

// Spread is the median and the longest of some durations; 0 of none.
type Spread struct {
	Median time.Duration `json:"median_ns"`
	Most   time.Duration `json:"most_ns"`
}

func spreadOf(all []time.Duration) (s Spread) {
	if slices.Sort(all); len(all) > 0 {
		s = Spread{all[len(all)/2], all[len(all)-1]}
	}
	return s
}

// Network runs honest and hostile peers in an emulated wide area until the attacks have been
// carried out and all pages of the honest peers are fetched, or none was for four minutes.
func Network(ctx context.Context, o NetworkOptions) (NetworkReport, error) {
	liars := o.Hostile / 3
	if o.Quiet {
		liars = 0
	}
	if o.Honest < 3 || o.Hostile < 3 {
		return NetworkReport{}, fmt.Errorf("attack: %d honest and %d hostile peers, want at "+
			"least 3 each", o.Honest, o.Hostile)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return NetworkReport{}, fmt.Errorf("attack: %w", err)
	}
	fake := &http.Server{Handler: http.HandlerFunc(emptyPages), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = fake.Serve(ln) }() // ends with Close
	defer func() { _ = fake.Close() }()

	c := &campaign{o: o, owned: map[string]bool{}, hostileOwned: map[string]bool{},
		asked: map[askedBy]time.Time{}}
	c.report.Report, err = testnet.Run(ctx, testnet.Options{
		Peers: o.Honest + liars, Hostile: liars, Sites: o.Sites, Pages: o.Pages, Seed: o.Seed,
		Strategy: "proxy", Gap: time.Second, CheckReports: config.Default().Crawl.CheckReports,
		Progress: o.Progress, Logger: o.Logger,
		DialWeb: func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, ln.Addr().String())
		},
		Beside: func(ctx context.Context, r testnet.Running) error {
			return c.run(ctx, r, o.Hostile-liars)
		},
	})
	var use unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &use) == nil {
		c.report.PeakMiB = float64(use.Maxrss) / 1024
	}
	return c.report, err
}

// A campaign is a run of Network.
type campaign struct {
	o       NetworkOptions
	r       testnet.Running
	e       *arena
	members []*member
	witness *falseWitness
	report  NetworkReport

	// From the first request to a hostile peer until it was doubted, and until it was found.
	doubted, found []time.Duration

	mu           sync.Mutex
	asked        map[askedBy]time.Time // not after the first request
	owned        map[string]bool       // subnets that an honest peer has owned
	hostileOwned map[string]bool       // subnets that a hostile peer has owned
}

// askedBy is a peer that an honest peer has asked for a page.
type askedBy struct{ honest, peer string }

func (c *campaign) honest() []*node.Node { return c.r.Peers[:c.o.Honest] }

// run carries out the attacks with some members, and waits for the honest peers.
func (c *campaign) run(ctx context.Context, r testnet.Running, members int) (err error) {
	c.r = r
	c.e = &arena{profile: r.Profile, nodes: r.Peers, hosts: map[string][]netip.Addr{}}
	if c.e.names, err = overlay.NewNames(r.Profile.NetworkID()); err != nil {
		return err
	}
	c.e.ctx, c.e.stop = context.WithCancel(ctx)
	defer func() { _ = c.e.close() }()
	c.e.running.Go(c.watch)
	// The attacker's machine is at the place of the first site.
	r.Network.Place(netip.MustParseAddr("127.0.0.1"), r.Layout.SitePlaces[0])
	if err := c.join(members); err != nil {
		return err
	}
	if err := c.e.sleep(c.o.Calm); err != nil {
		return err
	}
	steps := c.steps()
	for _, s := range steps {
		end := time.Now().Add(c.o.For / time.Duration(len(steps)))
		if !c.o.Quiet {
			c.say("begin %s", s.name)
			c.report.Steps = append(c.report.Steps, s.name+": "+s.do(end))
			c.say("%s", c.report.Steps[len(c.report.Steps)-1])
		}
		if err := c.e.sleep(time.Until(end)); err != nil {
			return err
		}
	}
	c.settle()
	c.judge()
	return context.Cause(ctx)
}

// settle waits until all pages of the honest peers' hosts are fetched, or none was for four
// minutes.
func (c *campaign) settle() {
	const patience = 4 * time.Minute
	least, since := c.missing(), time.Now()
	for least > 0 && time.Since(since) < patience && c.e.sleep(time.Second) == nil {
		if now := c.missing(); now < least {
			least, since = now, time.Now()
		}
	}
}

func (c *campaign) say(format string, args ...any) {
	if c.o.Progress != nil {
		fmt.Fprintf(c.o.Progress, "        "+format+"\n", args...)
	}
}

// join starts the members, which measure and answer heartbeats.
func (c *campaign) join(n int) error {
	for range n {
		m, err := c.e.member()
		if err != nil {
			return err
		}
		w := newFalseWitness(netip.Prefix{}, m.id)
		if err := m.attend(w); err != nil {
			return err
		}
		c.members, c.witness = append(c.members, m), w
	}
	return nil
}

// watchTrust is the time between two looks at which peers were asked.
const watchTrust = 5 * time.Second

// watch notes which subnets honest and hostile peers own, and whom honest ones ask for pages, until
// the end.
func (c *campaign) watch() {
	looked := time.Now()
	for c.e.sleep(time.Second) == nil {
		if time.Since(looked) >= watchTrust {
			now := time.Now()
			c.noteAsked(looked)
			looked = now
		}
		honest, hostile := c.owners(c.honest()), c.owners(c.r.Peers[c.o.Honest:])
		c.mu.Lock()
		for p := range honest {
			c.owned[p] = true
		}
		for p := range hostile {
			c.hostileOwned[p] = true
		}
		c.mu.Unlock()
	}
}

// noteAsked notes whom honest peers have asked for pages since a time.
func (c *campaign) noteAsked(since time.Time) {
	for _, n := range c.honest() {
		for _, p := range n.Peers() {
			by := askedBy{n.ID().String(), p.PeerID}
			c.mu.Lock()
			if _, ok := c.asked[by]; p.Trust != "" && !ok {
				c.asked[by] = since
			}
			c.mu.Unlock()
		}
	}
}

// owners returns the subnets that some peers own.
func (c *campaign) owners(of []*node.Node) map[string]*node.Node {
	all := map[string]*node.Node{}
	for _, n := range of {
		for _, s := range n.Subnets() {
			all[s.Subnet] = n
		}
	}
	return all
}

// crawled is a host that an honest peer crawls.
type crawled struct {
	owner  *node.Node
	subnet string
}

// crawled returns the hosts that honest peers crawl.
func (c *campaign) crawled() map[string]crawled {
	all := map[string]crawled{}
	for _, n := range c.honest() {
		for _, h := range n.Queue() {
			if h.Role == admin.HostOwn {
				all[h.Host] = crawled{n, h.Subnet}
			}
		}
	}
	return all
}

// missing counts the pages that were not fetched, by whether an honest peer owns their host.
func (c *campaign) missing() int {
	hosts, owned, elsewhere := c.crawled(), 0, 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.r.Web.Missing(c.o.Pages) {
		at, err := url.Parse(u)
		if err != nil {
			continue
		}
		if h, ok := hosts[at.Hostname()]; ok && !c.hostileOwned[h.subnet] {
			owned++
		} else {
			elsewhere++
		}
	}
	c.report.Missing, c.report.Elsewhere = owned, elsewhere
	return owned
}

// mostTraced is of how many missing pages the peers say what they know: a second for each.
const mostTraced = 10

// traceMissing says how many pages of each host were not fetched, and for the hosts with most of
// them what the peers know of one.
func (c *campaign) traceMissing() {
	hosts, pages := c.crawled(), map[string][]string{}
	for _, u := range c.r.Web.Missing(c.o.Pages) {
		if at, err := url.Parse(u); err == nil {
			pages[at.Hostname()] = append(pages[at.Hostname()], u)
		}
	}
	most := slices.SortedFunc(maps.Keys(pages), func(a, b string) int {
		return cmp.Or(len(pages[b])-len(pages[a]), cmp.Compare(a, b))
	})
	for _, host := range most {
		c.say("%s: %d pages were not fetched; subnet %s", host, len(pages[host]),
			hosts[host].subnet)
	}
	for _, host := range most[:min(len(most), mostTraced)] {
		for i, n := range c.r.Peers {
			trace, err := n.Trace(c.e.ctx, pages[host][0])
			if err != nil || trace.Here.Place != admin.PlaceNone {
				c.say("%s was not fetched; peer %d knows of it %+v (%v)", pages[host][0], i,
					trace.Here, err)
			}
		}
	}
}

// judge fills in what is known only at the end.
func (c *campaign) judge() {
	c.missing()
	c.traceMissing()
	for _, e := range c.r.Web.Early() {
		c.say("too early: %v", e)
	}
	honest, hostile := c.owners(c.honest()), c.owners(c.r.Peers[c.o.Honest:])
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.owned {
		switch {
		case honest[p] != nil:
		case hostile[p] != nil:
			c.report.Granted = append(c.report.Granted, p)
		default:
			c.report.Taken = append(c.report.Taken, p)
		}
	}
	number := map[string]int{}
	for i, n := range c.r.Peers[c.o.Honest:] {
		number[n.ID().String()] = i
	}
	for i, m := range c.members {
		number[m.id.String()] = len(c.r.Peers) - c.o.Honest + i
	}
	r := &c.report
	r.Asked, r.LiesFound = make([]int, len(number)), make([]int, len(number))
	r.LiarsFound = make([]int, len(number))
	for _, n := range c.honest() {
		for _, p := range n.Peers() {
			if i, ok := number[p.PeerID]; ok {
				c.judgeTrust(n.ID().String(), i, p)
			} else if p.Trust == "liar" {
				r.HonestDoubted++
			}
		}
	}
	r.Doubted, r.Found = spreadOf(c.doubted), spreadOf(c.found)
}

// judgeTrust notes what an honest peer knows of the hostile peer of a number.
func (c *campaign) judgeTrust(honest string, number int, p admin.Peer) {
	if p.Trust == "" {
		return
	}
	c.report.Asked[number]++
	asked, ok := c.asked[askedBy{honest, p.PeerID}]
	if !ok { // within the last seconds
		asked = time.Now().Add(-watchTrust)
	}
	lies := slices.DeleteFunc(slices.Clone(p.Checks), func(x admin.ReportCheck) bool {
		return x.Agrees
	})
	if len(lies) > 0 {
		c.report.LiesFound[number]++
		c.doubted = append(c.doubted, lies[0].At.Sub(asked))
	}
	if p.Trust == "liar" {
		c.report.LiarsFound[number]++
		c.found = append(c.found, lies[len(lies)-1].At.Sub(asked))
	} else if number < len(c.r.Peers)-c.o.Honest {
		c.say("a hostile peer that was first asked %v ago is %s: %+v",
			time.Since(asked).Round(time.Second), p.Trust, p.Checks)
	}
}

// target is a site as the attacks name it, with the peer that crawls it.
type target struct {
	*site
	owner *node.Node
}

// targets returns the sites that honest peers crawl.
func (c *campaign) targets() (all []target) {
	hosts := c.crawled()
	for _, s := range c.r.Web.Sites() {
		if h, ok := hosts[s.Host]; ok {
			all = append(all, target{c.siteOf(s), h.owner})
		}
	}
	return all
}

func (c *campaign) siteOf(s web.Site) *site {
	return &site{host: s.Host, addr: netip.AddrPortFrom(s.Addrs[0], uint16(c.r.Web.Port()))}
}
