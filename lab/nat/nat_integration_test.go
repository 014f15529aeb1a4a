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
	"testing"
	"time"

	"peerd/lab/emulate/netns"
	"peerd/lab/internal/build"
	"peerd/node/admin"
	"peerd/node/config"
)

const (
	open = 3 // peers with public addresses
	home = 2 // peers behind a router each
	// Hashes of the peers' new identities divide the sites. That one of the two peers behind
	// routers gets none has a probability of 3e-6.
	sites = 60
	pages = 4 // of each site
	// patience only ends what hangs.
	patience = 15 * time.Minute
)

var (
	child   = flag.String("child", "", "directory of the test; this process is inside")
	program = flag.String("peerd", "", "path of the program to test; built from source without it")
)

// Peers behind routers join, are reached by each other through a member at a public address, and
// fetch a part of the pages.
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

// network creates the namespaces. Each connection through a router gets a random port, so that no
// hole can be punched and relays are needed.
func network(ctx context.Context) error {
	lines := []string{
		"link set lo up", "link add br0 type bridge", "link set br0 up",
		"addr add 21.100.0.1/8 dev br0",
		"route add local 21.100.0.0/16 dev lo",
	}
	attach := func(name, addr string) {
		lines = append(lines, "netns add "+name,
			fmt.Sprintf("link add %s type veth peer name eth0 netns %s", name, name),
			fmt.Sprintf("link set %s master br0 up", name),
			fmt.Sprintf("-n %s link set lo up", name),
			fmt.Sprintf("-n %s link set eth0 up", name),
			fmt.Sprintf("-n %s addr add %s/8 dev eth0", name, addr),
			fmt.Sprintf("-n %s route add default via 21.100.0.1", name))
	}
	for i := range open {
		attach(fmt.Sprintf("p%d", i), fmt.Sprintf("21.%d.0.1", i+1))
	}
	for i := range home {
		router, peer := fmt.Sprintf("r%d", i), fmt.Sprintf("p%d", open+i)
		attach(router, fmt.Sprintf("21.%d.0.1", 51+i))
		lines = append(lines, "netns add "+peer,
			fmt.Sprintf("-n %s link add lan type veth peer name eth0 netns %s", router, peer),
			fmt.Sprintf("-n %s link set lan up", router),
			fmt.Sprintf("-n %s addr add 192.168.%d.1/24 dev lan", router, i+1),
			fmt.Sprintf("-n %s link set lo up", peer),
			fmt.Sprintf("-n %s link set eth0 up", peer),
			fmt.Sprintf("-n %s addr add 192.168.%d.2/24 dev eth0", peer, i+1),
			fmt.Sprintf("-n %s route add default via 192.168.%d.1", peer, i+1))
	}
	for _, l := range lines {
		if _, err := run(ctx, "", append([]string{"ip"}, strings.Fields(l)...)...); err != nil {
			return err
		}
	}
	const rules = `table ip home {
	chain leave { type nat hook postrouting priority 100;
		oifname "eth0" masquerade fully-random; }
	chain pass { type filter hook forward priority 0; policy drop;
		iifname "lan" accept; ct state established,related accept; }
}`
	for i := range home {
		in := []string{"ip", "netns", "exec", fmt.Sprintf("r%d", i)}
		_, err := run(ctx, rules, append(in, "nft", "-f", "-")...)
		if err == nil {
			_, err = run(ctx, "1\n", append(in, "tee", "/proc/sys/net/ipv4/ip_forward")...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func site(i int) string { return fmt.Sprintf("site%d.example", i) }

// serve serves the sites, each in a subnet of its own.
func serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
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
func start(t *testing.T, name, bootstrap string) peer {
	t.Helper()
	h, err := config.Init(filepath.Join(*child, name))
	if err != nil {
		t.Fatal(err)
	}
	p := peer{name, h, make(chan struct{})}
	text := `contact = "https://example.org/nat"
strategy = "hash"
listen = ["/ip4/0.0.0.0/tcp/4101", "/ip4/0.0.0.0/udp/4101/quic-v1"]
`
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
	web := &http.Server{Addr: ":80", Handler: http.HandlerFunc(serve)}
	go func() { _ = web.ListenAndServe() }()
	defer web.Close()

	peers := []peer{start(t, "p0", "")}
	id, err := peers[0].home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	for i := 1; i < open+home; i++ {
		peers = append(peers, start(t, fmt.Sprintf("p%d", i),
			fmt.Sprintf("/ip4/21.1.0.1/tcp/4101/p2p/%v", id)))
	}
	var all []admin.Status
	begin := time.Now()
	until := func(what string, done func() bool) {
		t.Helper()
		for {
			all = all[:0]
			for _, p := range peers {
				select {
				case <-p.ended:
					t.Fatalf("%s has exited", p.name)
				default:
					all = append(all, p.status(ctx))
				}
			}
			if done() {
				t.Logf("after %v: %s", time.Since(begin).Round(time.Second), what)
				return
			}
			if ctx.Err() != nil {
				for i, s := range all {
					t.Logf("p%d: %d connected, reachable %q, %d pages, %v, %v", i,
						s.PeersConnected, s.Reachability, s.PagesFetched, s.Addrs, s.Health)
				}
				t.Fatal("did not happen: ", what)
			}
			time.Sleep(2 * time.Second)
		}
	}
	until("every peer knows how it is reached", func() bool {
		for i, s := range all {
			want := "direct"
			if i >= open {
				want = "relayed"
			}
			if s.Reachability != want {
				return false
			}
		}
		return true
	})
	until("every peer is connected to all others", func() bool {
		return !slices.ContainsFunc(all, func(s admin.Status) bool {
			return s.PeersConnected < open+home-1
		})
	})
	var seeds []string
	for i := range sites {
		seeds = append(seeds, "http://"+site(i)+"/")
	}
	// A peer behind a router finds the sites, so that it sends the URLs of some to the other.
	last := peers[len(peers)-1]
	if _, err := run(ctx, "", last.peerd(append([]string{"seed"}, seeds...)...)...); err != nil {
		t.Fatal(err)
	}
	until("all pages are fetched, some by each peer behind a router", func() bool {
		sum := int64(0)
		for _, s := range all {
			sum += s.PagesFetched
		}
		return sum >= sites*pages && all[open].PagesFetched > 0 && all[open+1].PagesFetched > 0
	})
}
