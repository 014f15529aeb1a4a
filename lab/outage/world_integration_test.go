//go:build integration

package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/lab/emulate/faulty"
	"peerd/lab/emulate/netns"
)

// world is the network, the sites, the names and the peers of a row, all of them in the namespaces
// of this process.
type world struct {
	t     *testing.T
	row   *row
	ctx   context.Context // of the row
	dir   string
	net   *netns.Network
	web   *faulty.Web
	names *faulty.Names
	peers []*peer
	// The longest stall of this process so far, a time.Duration, and the largest resident size of
	// the first peer in bytes.
	stall, memory atomic.Int64

	mended        time.Time // when the outage ended
	fetchedBefore int       // pages at that time
	exit          int       // status of crawl
	faults        []string
	serving       context.Context // of what serve and start begin
	stop          func()
	stopped       []chan error
}

func newWorld(ctx context.Context, t *testing.T, r *row) (*world, error) {
	w := &world{t: t, row: r, ctx: ctx, dir: *keep, names: faulty.NewNames(30 * time.Second)}
	var err error
	if w.web, err = faulty.New(r.sites); err != nil {
		return nil, err
	}
	for i, s := range r.sites {
		w.names.Set(s.Host, addr(i))
	}
	if err = netns.Mount(); err != nil {
		return nil, err
	}
	if err = netns.SetResolver(w.dir); err != nil {
		return nil, err
	}
	if w.net, err = netns.New(ctx, max(r.peers, 1)); err != nil {
		return nil, err
	}
	if err = w.serve(); err != nil {
		return nil, err
	}
	for i := range max(r.peers, 1) {
		p, err := newPeer(w, i)
		if err != nil {
			return nil, err
		}
		w.peers = append(w.peers, p)
	}
	return w, nil
}

// serve starts the servers of sites and names, which close stops.
func (w *world) serve() error {
	w.serving, w.stop = context.WithCancel(context.WithoutCancel(w.ctx))
	plain, err1 := net.Listen("tcp", ":80")
	secure, err2 := net.Listen("tcp", ":443")
	at := netip.AddrPortFrom(netns.Gateway, 53).String()
	udp, err3 := net.ListenPacket("udp", at)
	tcp, err4 := net.Listen("tcp", at)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	w.background(func(ctx context.Context) error { return w.web.Serve(ctx, plain, secure) })
	w.background(func(ctx context.Context) error { return w.names.Serve(ctx, udp, tcp) })
	w.background(w.watchStalls)
	return nil
}

// background runs a function until close.
func (w *world) background(run func(ctx context.Context) error) {
	done := make(chan error, 1)
	w.stopped = append(w.stopped, done)
	go func() { done <- run(w.serving) }()
}

// watchStalls measures the longest stall of this process.
func (w *world) watchStalls(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for last := time.Now(); ; last = time.Now() {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.stall.Store(max(w.stall.Load(), int64(time.Since(last))))
		}
	}
}

// close stops the peers and servers and writes the logs.
func (w *world) close() {
	for _, p := range w.peers {
		p.kill()
	}
	w.stop()
	for _, done := range w.stopped {
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	f, err := os.Create(filepath.Join(w.dir, "hits.jsonl"))
	if err == nil {
		err = errors.Join(w.web.WriteLog(f), f.Close())
	}
	if err != nil {
		w.t.Error(err)
	}
}

// start starts the peers and gives the first one the seeds.
func (w *world) start() error {
	if w.row.command == crawl {
		if err := w.peers[0].start(w.crawlArgs()...); err != nil {
			return err
		}
		go w.peers[0].watchMemory(&w.memory)
		return nil
	}
	for _, p := range w.peers {
		if err := p.run(w.peers[0]); err != nil {
			return err
		}
	}
	go w.peers[0].watchMemory(&w.memory)
	if err := w.waitJoined(); err != nil {
		return err
	}
	return w.peers[0].seed(w.seeds())
}

// waitJoined waits until the peers know each other.
func (w *world) waitJoined() error {
	for _, p := range w.peers {
		var state string
		if !w.wait(patience, func() bool {
			s, err := p.status()
			state = fmt.Sprintf("%d peers, %v", s.Directory, err)
			return err == nil && s.Directory >= len(w.peers)-1
		}) {
			return fmt.Errorf("peer %d did not join: %s\n%s", p.i, state, p.output())
		}
	}
	return nil
}

func (w *world) seeds() (urls []string) {
	for _, s := range w.row.sites {
		urls = append(urls, s.URL())
	}
	return urls
}

func (w *world) crawlArgs() []string {
	args := append([]string{"crawl", "--home", w.peers[0].home, "--profile",
		w.peers[0].profile}, w.row.args...)
	if len(w.row.args) == 0 || !strings.Contains(strings.Join(w.row.args, " "), "://") {
		args = append(args, w.seeds()...)
	}
	return args
}

// wait waits until cond holds, at most for limit.
func (w *world) wait(limit time.Duration, cond func() bool) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if cond() {
			return true
		}
		select {
		case <-tick.C:
		case <-late.C:
			return false
		case <-w.ctx.Done():
			return false
		}
	}
}

// finish waits until the crawl is over: crawl has ended, or run has fetched every page that the
// row wants and had time to fetch more.
func (w *world) finish() {
	if w.row.command == crawl {
		w.finishCrawl()
		return
	}
	wanted := w.web.Pages() - w.row.want.missing
	w.wait(w.row.settling(), func() bool { return w.web.Fetched() >= wanted })
	w.wait(2*time.Second, func() bool { return false })
	for _, p := range w.peers {
		if !p.running() {
			w.fault("peer %d ended by itself", p.i)
		} else if w.web.Fetched() < wanted {
			w.t.Logf("peer %d:\n%s\n%s", p.i, p.tell("status"), clip(p.tell("queue")))
		}
	}
	for _, p := range w.peers {
		if !p.terminate(patience) {
			w.fault("peer %d ran %v after SIGTERM", p.i, patience)
		}
	}
}

func (w *world) finishCrawl() {
	p := w.peers[0]
	if !w.wait(w.row.settling(), func() bool { return !p.running() }) {
		w.fault("crawl did not end within %v after the outage", w.row.settling())
		p.terminate(patience)
	}
	w.exit = p.exitCode()
}

// again runs the same crawl again, without faults.
func (w *world) again() {
	exit := w.exit
	if err := w.peers[0].start(w.crawlArgs()...); err != nil {
		w.fault("%v", err)
		return
	}
	w.finishCrawl()
	if w.exit != 0 {
		w.fault("the exit status of the second crawl was %d, want 0", w.exit)
	}
	w.exit = exit
}

// output returns what the peers printed.
func (w *world) output() string {
	var all strings.Builder
	for _, p := range w.peers {
		if len(w.peers) > 1 {
			fmt.Fprintf(&all, "peer %d:\n", p.i)
		}
		all.WriteString(p.output())
	}
	return all.String()
}

// setFaults sets the faults of the network, and fails the row if that is not possible.
func (w *world) setFaults(faults ...netns.Fault) { w.must(w.net.SetFaults(faults...)) }

func (w *world) must(err error) {
	if err != nil {
		w.fault("%v", err)
	}
}

// breakSites makes all sites have a fault.
func (w *world) breakSites(f faulty.Fault) {
	for _, s := range w.row.sites {
		s.Break(f)
	}
}

// mend ends all faults.
func (w *world) mend() {
	for i := range w.peers {
		w.must(w.net.SetCable(i, true))
		w.must(w.net.SetLink(i, true))
	}
	for _, s := range w.row.sites {
		s.Mend()
	}
	w.names.Break(faulty.NamesWork)
	w.setFaults()
}

// addr returns the address of site i, in a subnet of its own up to 4096 sites.
func addr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(80 + i>>8&15), byte(i), byte(10 + i>>12)})
}

// addr6 returns an IPv6 address of site i, in a subnet of its own.
func addr6(i int) netip.Addr {
	return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x80, 4: byte(i >> 8), 5: byte(i), 15: 0x10})
}

// one returns the prefix of one address.
func one(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// sites returns sites with a number of pages each and no faults.
func sites(n, pages, fan int) (all []*faulty.Site) {
	for i := range n {
		all = append(all, &faulty.Site{Host: fmt.Sprintf("h%d.test", i), Pages: pages, Fan: fan})
	}
	return all
}

// https makes sites serve HTTPS.
func https(kind faulty.CertKind, all []*faulty.Site) []*faulty.Site {
	for _, s := range all {
		s.Cert = kind
	}
	return all
}
