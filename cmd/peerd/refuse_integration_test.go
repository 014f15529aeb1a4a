//go:build integration

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate/web"
)

// refused runs a command that must fail with the status, with one line on stderr that contains
// want, and with no output.
func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	stdout, stderr, got := tryPeerd(t, args...)
	if got != code || !strings.Contains(stderr, want) {
		t.Errorf("%s: status %d, stderr %q, want %d, %q", args[0], got, stderr, code, want)
	}
	if !strings.HasPrefix(stderr, "peerd: ") || strings.Count(stderr, "\n") != 1 || stdout != "" {
		t.Errorf("%s: stderr %q, stdout %q, want one line on stderr", args[0], stderr, stdout)
	}
}

// Addresses and homes in use are refused, and the peer that uses them continues.
func TestInUse(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--listen",
		"/ip4/127.0.0.1/udp/0/quic-v1")
	d.run()
	addrs := d.status().Addrs
	if len(addrs) != 2 {
		t.Fatalf("addresses = %v, want two", addrs)
	}
	client, err := os.ReadFile(filepath.Join(d.home, "api.json"))
	if err != nil {
		t.Fatal(err)
	}
	api := strings.Split(string(client), `"`)[3]
	other := newDaemon(t).home
	for _, addr := range addrs {
		listen, _, _ := strings.Cut(addr, "/p2p/")
		refused(t, cli.ExitFailed, "address already in use", "run", "--home", other, "--listen",
			listen)
	}
	refused(t, cli.ExitFailed, "address already in use", "run", "--home", other, "--listen",
		"/ip4/127.0.0.1/tcp/0", "--api", api)
	refused(t, cli.ExitFailed, "in use by another process", "run", "--home", d.home, "--listen",
		"/ip4/127.0.0.1/tcp/0")
	refused(t, cli.ExitFailed, "in use by another process", "crawl", "http://a.example/", "--home",
		d.home)
	if now, err := os.ReadFile(filepath.Join(d.home, "api.json")); err != nil ||
		string(now) != string(client) {
		t.Errorf("api.json of the running peer = %q, %v, want it unchanged", now, err)
	}
	d.status()
	if code := d.terminate(10 * time.Second); code != cli.ExitOK {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
	// The other home is intact.
	o := &daemon{t: t, home: other, flags: []string{"--listen", "/ip4/127.0.0.1/tcp/0"}}
	o.run()
	if code := o.terminate(10 * time.Second); code != cli.ExitOK {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
}

func TestStoreOfOtherVersion(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0")
	d.run()
	d.terminate(10 * time.Second)
	file := filepath.Join(d.home, "store", "VERSION")
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("peerd-store-0\n")
	for _, args := range [][]string{{"run"}, {"links"}, {"crawl", "http://a.example/"}} {
		refused(t, cli.ExitFailed, `written by another version of peerd: `,
			append(args, "--home", d.home)...)
	}
	write(string(right))
	d.run()
	if code := d.terminate(10 * time.Second); code != cli.ExitOK {
		t.Errorf("status after SIGTERM = %d, want 0", code)
	}
}

// A home is bound to the network that it was first used in.
func TestHomeOfOtherNetwork(t *testing.T) {
	t.Parallel()
	profile := func(name string, more string) string {
		file := filepath.Join(t.TempDir(), name+".toml")
		text := fmt.Sprintf("name = %q\n[scope]\nmode = 'hosts'\nhosts = ['a.example'%s]\n", name,
			more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	const want = "the home belongs to another network: it was used for docs-"
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--profile", profile("docs", ""))
	d.run()
	network := d.status().Network
	d.terminate(10 * time.Second)
	run := []string{"run", "--home", d.home, "--listen", "/ip4/127.0.0.1/tcp/0"}
	refused(t, cli.ExitUsage, want, run...)
	refused(t, cli.ExitUsage, want, append(run, "--profile", profile("docs", ", 'b.example'"))...)
	refused(t, cli.ExitUsage, want, append(run, "--profile", profile("documents", ""))...)
	refused(t, cli.ExitUsage, want, "crawl", "http://a.example/", "--home", d.home)
	d.flags[len(d.flags)-1] = profile("docs", ", 'A.example'") // the same rules in another form
	d.run()
	if now := d.status().Network; now != network {
		t.Errorf("network = %s, want %s", now, network)
	}
	d.terminate(10 * time.Second)
}

func TestHomeOfOtherCrawl(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 2, Pages: 4, Seed: 23, MinDelay: time.Millisecond},
		105)
	home := filepath.Join(t.TempDir(), "home")
	crawlOf(t, w, home, flags)
	first, second := w.Sites()[0].URL, w.Sites()[1].URL
	with := func(args ...string) []string {
		return append(append([]string{"crawl", "--home", home}, args...), flags...)
	}
	const want = "the home belongs to another network: it was used for one-shot-"
	refused(t, cli.ExitUsage, want, with(second)...)
	refused(t, cli.ExitUsage, want, with(first, second)...)
	refused(t, cli.ExitUsage, want, with(first, "--scope", "domain")...)
	refused(t, cli.ExitUsage, want, "run", "--home", home, "--listen", "/ip4/127.0.0.1/tcp/0")
	peerd(t, with(first+"elsewhere", "--max-pages", "9")...) // the same rules
}

// TestDeny: a host on the deny list of its owner is fetched by another peer, and the owner does
// not request it again, although it stays in the network.
func TestDeny(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 1, Pages: 300, Seed: 5,
		MinDelay: 100 * time.Millisecond}, 137)
	ds := network(t, w, flags, freeAddr(t, 41), freeAddr(t, 42))
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	eventually(t, time.Minute, "some pages are fetched, and one peer owns the site",
		func() (bool, any) {
			a, b := ds[0].status(), ds[1].status()
			return w.Audit().PagesFetched >= 20 && a.SubnetsOwned+b.SubnetsOwned == 1,
				w.Audit().PagesFetched
		})
	owner := ds[0]
	if ds[1].status().SubnetsOwned == 1 {
		owner = ds[1]
	}
	before := owner.status().PagesFetched
	peerd(t, "deny", "add", "--home", owner.home, w.Sites()[0].Host)
	after := owner.status().PagesFetched
	awaitIdle(t, 3*time.Minute, ds)
	a := w.Audit()
	t.Logf("the owner fetched %d pages before; %d of %d pages in %d fetches", before,
		a.PagesFetched, a.PagesExpected, a.Fetches)
	if a.PagesFetched != a.PagesExpected || a.Fetches > a.PagesExpected+1 {
		t.Errorf("fetched %d of %d pages in %d fetches", a.PagesFetched, a.PagesExpected, a.Fetches)
	}
	if got := owner.status().PagesFetched; got > after+1 {
		t.Errorf("the peer that denies the host fetched %d pages of it", got-after)
	}
}
