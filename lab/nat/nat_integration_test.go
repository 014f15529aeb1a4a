//go:build integration

package nat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/lab/emulate/netns"
	"peerd/lab/internal/build"
	"peerd/node/admin"
	"peerd/node/config"
)

const (
	open = 3 // peers with public addresses
	// Hashes of the peers' new identities divide the sites. That one of the eight peers gets none
	// has a probability of 1e-6.
	sites = 120
	pages = 4 // of each site
	// patience only ends what hangs.
	patience = 15 * time.Minute
)

// A kind says how a router translates and filters (RFC 4787, sections 4 and 5; the names are those
// of RFC 3489).
type kind int

const (
	// fullCone forwards to the peer what comes for the port that it sends from.
	fullCone kind = iota
	// restricted keeps the port, and lets in what comes from where the peer has sent to: holes can
	// be punched.
	restricted
	// symmetric takes a random port for each connection: holes can be punched only to fullCone
	// and open peers.
	symmetric
)

// A home is the place of a peer behind a router.
type home struct {
	router string
	kind   kind
	outer  string // the router of the router, which is restricted; "": none
}

// homes are those of the peers after the open ones. No relay is needed between peers in two homes
// only if direct says so.
var homes = []home{
	{router: "cone", kind: fullCone},
	{router: "symm", kind: symmetric},
	{router: "inner", kind: restricted, outer: "outer"},
	{router: "flat", kind: restricted},
	{router: "flat", kind: restricted},
}

// direct reports whether two peers can be connected without a relay: one of them is reached
// directly, both are behind the same router, or a hole can be punched.
func direct(a, b int) bool {
	if a < open || b < open {
		return true
	}
	x, y := homes[a-open], homes[b-open]
	return x.router == y.router || x.kind == fullCone || y.kind == fullCone ||
		x.kind != symmetric && y.kind != symmetric
}

var (
	child   = flag.String("child", "", "directory of the test; this process is inside")
	program = flag.String("peerd", "", "path of the program to test; built from source without it")
)

// Peers behind routers of all kinds join, are connected to each other by holes in the routers or,
// where that is impossible, through a member at a public address, own subnets, and fetch a part of
// the pages, each page once.
func TestBehindRouters(t *testing.T) {
	if *child != "" {
		inside(t)
		return
	}
	err := netns.Run(t.Context(), []string{"true"}, io.Discard, io.Discard)
	if errors.Is(err, netns.ErrUnavailable) {
		t.Skip(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, path := t.TempDir(), *program
	if path == "" {
		if path, err = build.Program(t.Context(), "cmd/peerd", dir); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	err = netns.Run(t.Context(), []string{self, "-test.run=^TestBehindRouters$", "-test.v",
		"-test.timeout=1h", "-child", dir, "-peerd", path}, &out, &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if strings.Contains(out.String(), "--- SKIP") {
		t.Skip(out.String())
	}
	t.Log(out.String())
}

// run runs a command and returns what it prints.
func run(ctx context.Context, stdin string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, exit.Stderr)
	}
	return string(out), err
}

// network creates the namespaces.
func network(ctx context.Context) error {
	ip := func(format string, args ...any) error {
		words := strings.Fields(fmt.Sprintf(format, args...))
		_, err := run(ctx, "", append([]string{"ip"}, words...)...)
		return err
	}
	// attach connects a namespace to the outside.
	attach := func(name, addr string) error {
		return errors.Join(ip("netns add %s", name),
			ip("link add %s type veth peer name eth0 netns %s", name, name),
			ip("link set %s master br0 up", name),
			ip("-n %s link set lo up", name), ip("-n %s link set eth0 up", name),
			ip("-n %s addr add %s/8 dev eth0", name, addr),
			ip("-n %s route add default via 21.100.0.1", name))
	}
	// behind connects a namespace to a bridge of its router, which has the address .1 of a network.
	behind := func(name, router, network string, host int) error {
		return errors.Join(ip("netns add %s", name),
			ip("-n %s link add to-%s type veth peer name eth0 netns %s", router, name, name),
			ip("-n %s link set to-%s master lan up", router, name),
			ip("-n %s link set lo up", name), ip("-n %s link set eth0 up", name),
			ip("-n %s addr add %s.%d/24 dev eth0", name, network, host),
			ip("-n %s route add default via %s.1", name, network))
	}
	// route makes a namespace a router for a network behind it.
	route := func(name string, k kind, network string) error {
		err := errors.Join(ip("-n %s link add lan type bridge", name),
			ip("-n %s link set lan up", name), ip("-n %s addr add %s.1/24 dev lan", name, network))
		if err != nil {
			return err
		}
		in := []string{"ip", "netns", "exec", name}
		_, err = run(ctx, rules(k, network+".2"), append(in, "nft", "-f", "-")...)
		_, err2 := run(ctx, "1\n", append(in, "tee", "/proc/sys/net/ipv4/ip_forward")...)
		return errors.Join(err, err2)
	}
	err := errors.Join(ip("link set lo up"), ip("link add br0 type bridge"),
		ip("link set br0 up"), ip("addr add 21.100.0.1/8 dev br0"),
		ip("route add local 21.100.0.0/16 dev lo"))
	for i := range open {
		err = errors.Join(err, attach(fmt.Sprintf("p%d", i), fmt.Sprintf("21.%d.0.1", i+1)))
	}
	last := map[string]int{} // address of the last peer behind a router
	for i, h := range homes {
		network := fmt.Sprintf("192.168.%d", slices.IndexFunc(homes, func(o home) bool {
			return o.router == h.router
		})+1)
		if last[h.router] == 0 {
			last[h.router] = 1
			outside := fmt.Sprintf("21.%d.0.1", 51+i)
			if h.outer == "" {
				err = errors.Join(err, attach(h.router, outside))
			} else {
				err = errors.Join(err, attach(h.outer, outside),
					route(h.outer, restricted, "10.0.0"),
					behind(h.router, h.outer, "10.0.0", 2))
			}
			err = errors.Join(err, route(h.router, h.kind, network))
		}
		last[h.router]++
		name := fmt.Sprintf("p%d", open+i)
		err = errors.Join(err, behind(name, h.router, network, last[h.router]))
	}
	return err
}

// rules returns the rules of a router for nftables. Only fullCone forwards to a peer behind it.
func rules(k kind, peer string) string {
	masquerade, forward, accept := "masquerade", "", ""
	switch k {
	case symmetric:
		masquerade = "masquerade fully-random"
	case fullCone:
		forward = fmt.Sprintf(`chain enter { type nat hook prerouting priority -100;
			iifname "eth0" meta l4proto { tcp, udp } th dport 1024-65535 dnat to %s; }`, peer)
		accept = "ip daddr " + peer + " accept;"
	}
	return fmt.Sprintf(`table ip home {
	chain leave { type nat hook postrouting priority 100; oifname "eth0" %s; }
	chain own { type filter hook input priority 0; iifname "eth0" ct state new drop; }
	%s
	chain pass { type filter hook forward priority 0; policy drop;
		iifname "lan" accept; ct state established,related accept; %s }
}`, masquerade, forward, accept)
}

func site(i int) string { return fmt.Sprintf("site%d.example", i) }

// web is the sites, each in a subnet of its own, and counts the requests for each page.
type web struct {
	mu   sync.Mutex
	hits map[string]int
}

func (x *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	x.mu.Lock()
	x.hits[r.Host+r.URL.Path]++
	x.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<title>%s%s</title><p>%s is a page of %s.", r.Host, r.URL.Path, r.URL.Path,
		r.Host)
	for i := range pages - 1 {
		fmt.Fprintf(w, ` <a href="/page%d">page %d</a>`, i, i)
	}
}

// A peer is a process in its namespace.
type peer struct {
	name  string
	home  config.Home
	ended chan struct{} // closed when the process has exited
}

// peerd returns the words of a command of the program in the namespace of the peer.
func (p peer) peerd(words ...string) []string {
	words = append([]string{"ip", "netns", "exec", p.name, *program}, words...)
	return append(words, "--home", p.home.Dir)
}

// start starts the peer, which joins through the peer at an address.
func start(t *testing.T, i int, bootstrap string) peer {
	t.Helper()
	name, port := fmt.Sprintf("p%d", i), 4101+i // peers behind one router need different ports
	h, err := config.Init(filepath.Join(*child, name))
	if err != nil {
		t.Fatal(err)
	}
	p := peer{name, h, make(chan struct{})}
	text := fmt.Sprintf(`contact = "https://example.org/nat"
strategy = "hash"
libp2p_metrics = true
mdns = true # finds peers behind the same router
listen = ["/ip4/0.0.0.0/tcp/%[1]d", "/ip4/0.0.0.0/udp/%[1]d/quic-v1"]
`, port)
	if bootstrap != "" {
		text += fmt.Sprintf("bootstrap = [%q]\n", bootstrap)
	}
	text += "[crawl.resolve]\n"
	for i := range sites {
		text += fmt.Sprintf("%q = [\"21.100.%d.1\"]\n", site(i), i+1)
	}
	if err := os.WriteFile(h.ConfigFile(), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	words := p.peerd("run")
	cmd := exec.Command(words[0], words[1:]...)
	log, err := os.Create(h.Dir + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	netns.KillWithParent(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // its log says why
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.ended
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("log of %s:\n%s", name, b[max(0, len(b)-8<<10):])
		}
	})
	return p
}

func (p peer) status(ctx context.Context) (s admin.Status) {
	out, err := run(ctx, "", p.peerd("status", "--json")...)
	if err == nil {
		_ = json.Unmarshal([]byte(out), &s) // the zero value: not running yet
	}
	return s
}

// inside runs in the namespaces.
func inside(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := netns.Mount(); err != nil {
		t.Fatal(err)
	}
	if err := network(ctx); err != nil {
		t.Skip("no network of routers: ", err)
	}
	served := &web{hits: map[string]int{}}
	srv := &http.Server{Addr: ":80", Handler: served}
	go func() { _ = srv.ListenAndServe() }()
	defer srv.Close()

	peers := []peer{start(t, 0, "")}
	id, err := peers[0].home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < open+len(homes); i++ {
		peers = append(peers, start(t, i, fmt.Sprintf("/ip4/21.1.0.1/tcp/4101/p2p/%v", id)))
	}
	w := &watch{t: t, peers: peers, begin: time.Now()}
	w.until(ctx, "every open peer knows that it is reached, and every peer how", func() bool {
		for i, s := range w.all {
			if i < open && s.Reachability != "direct" || s.Reachability == "" {
				return false
			}
		}
		return true
	})
	w.until(ctx, "every peer is connected to all others", func() bool {
		return !slices.ContainsFunc(w.all, func(s admin.Status) bool {
			return s.PeersConnected < len(peers)-1
		})
	})
	// libp2p gives up after three tries at once, which may all fail on a busy machine.
	w.until(ctx, "holes were punched, or were tried for a minute", func() bool {
		return w.relayed(ctx, false) == "" || time.Since(w.begin) > time.Minute
	})
	t.Log("relayed although a hole could be punched: ", w.relayed(ctx, false))
	var seeds []string
	for i := range sites {
		seeds = append(seeds, "http://"+site(i)+"/")
	}
	// A peer behind a router finds the sites, so that it sends the URLs of most to the others.
	last := peers[len(peers)-1]
	if _, err := run(ctx, "", last.peerd(append([]string{"seed"}, seeds...)...)...); err != nil {
		t.Fatal(err)
	}
	w.until(ctx, "all pages are fetched, some by each peer", func() bool {
		served.mu.Lock()
		defer served.mu.Unlock()
		return len(served.hits) == sites*pages && !slices.ContainsFunc(w.all,
			func(s admin.Status) bool { return s.PagesFetched == 0 || s.SubnetsOwned == 0 })
	})
	for page, n := range served.hits {
		if n != 1 {
			t.Errorf("%s was fetched %d times", page, n)
		}
	}
	t.Logf("%d pages, by peer: %v", len(served.hits), w.pages())
	t.Log("relayed connections: ", w.relayed(ctx, true))
	t.Log("bytes relayed by the open peers: ", w.relayedBytes(ctx))
}

// A watch follows the states of peers.
type watch struct {
	t     *testing.T
	peers []peer
	begin time.Time
	all   []admin.Status
}

// until waits for a condition.
func (w *watch) until(ctx context.Context, what string, done func() bool) {
	w.t.Helper()
	for {
		w.all = w.all[:0]
		for _, p := range w.peers {
			select {
			case <-p.ended:
				w.t.Fatalf("%s has exited", p.name)
			default:
				w.all = append(w.all, p.status(ctx))
			}
		}
		if done() {
			w.t.Logf("after %v: %s", time.Since(w.begin).Round(time.Second), what)
			return
		}
		if ctx.Err() != nil {
			for i, s := range w.all {
				w.t.Logf("p%d: %d connected, reachable %q, %d pages, %v, %v", i,
					s.PeersConnected, s.Reachability, s.PagesFetched, s.Addrs, s.Health)
			}
			w.t.Log("relayed: ", w.relayed(context.WithoutCancel(ctx), true))
			w.t.Fatal("did not happen: ", what)
		}
		time.Sleep(2 * time.Second)
	}
}

// relayed returns the pairs of peers that are connected by relays only: all, or those that need
// none.
func (w *watch) relayed(ctx context.Context, all bool) (pairs string) {
	ids := map[string]int{}
	for i, p := range w.peers {
		id, err := p.home.PeerID()
		if err != nil {
			return err.Error()
		}
		ids[id.String()] = i
	}
	for i, p := range w.peers {
		out, err := run(ctx, "", p.peerd("peers", "--json")...)
		var others []admin.Peer
		if err == nil {
			err = json.Unmarshal([]byte(out), &others)
		}
		if err != nil {
			return err.Error()
		}
		for _, o := range others {
			if j := ids[o.PeerID]; o.Relayed && (all || direct(i, j)) {
				pairs += fmt.Sprintf(" p%d-p%d", i, j)
			}
		}
	}
	return pairs
}

func (w *watch) pages() (all []int64) {
	for _, s := range w.all {
		all = append(all, s.PagesFetched)
	}
	return all
}

// relayedBytes returns what libp2p has counted at the open peers.
func (w *watch) relayedBytes(ctx context.Context) (all []string) {
	const relayed = "libp2p_relaysvc_data_transferred_bytes_total "
	for _, p := range w.peers[:open] {
		var api struct{ Addr, Token string }
		b, err := os.ReadFile(p.home.APIFile())
		if err == nil {
			err = json.Unmarshal(b, &api)
		}
		var out string
		if err == nil {
			out, err = run(ctx, "", "ip", "netns", "exec", p.name, "curl", "-s", "-H",
				"Authorization: Bearer "+api.Token, api.Addr+"/metrics")
		}
		n := "unknown"
		for line := range strings.Lines(out) {
			if v, ok := strings.CutPrefix(line, relayed); ok {
				n = strings.TrimSpace(v)
			}
		}
		if err != nil {
			n = err.Error()
		}
		all = append(all, n)
	}
	return all
}
