package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// refused runs a command that must fail with the status, say want in one line
// on stderr, and nothing on stdout.
func refused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	stdout, stderr, got := tryPeerd(t, args...)
	if got != code || !strings.Contains(stderr, want) {
		t.Errorf("%s: status %d, %q; want %d, %q", args[0], got, stderr, code, want)
	}
	if !strings.HasPrefix(stderr, "peerd: ") || strings.Count(stderr, "\n") != 1 || stdout != "" {
		t.Errorf("%s: not one clear line: %q, stdout %q", args[0], stderr, stdout)
	}
}

// What is in use already is refused, and whoever uses it goes on.
func TestWhatIsInUseIsRefused(t *testing.T) {
	t.Parallel()
	d := newDaemon(t, "--listen", "/ip4/127.0.0.1/tcp/0", "--listen", "/ip4/127.0.0.1/udp/0/quic-v1")
	d.run()
	addrs := d.status().Addrs
	if len(addrs) != 2 {
		t.Fatalf("it listens on %v", addrs)
	}
	client, err := os.ReadFile(filepath.Join(d.home, "api.json"))
	if err != nil {
		t.Fatal(err)
	}
	api := strings.Split(string(client), `"`)[3]
	other := newDaemon(t).home
	for _, addr := range addrs {
		listen, _, _ := strings.Cut(addr, "/p2p/")
		refused(t, exitFailed, "address already in use", "run", "--home", other, "--listen", listen)
	}
	refused(t, exitFailed, "address already in use", "run", "--home", other, "--listen", "/ip4/127.0.0.1/tcp/0", "--api", api)
	refused(t, exitFailed, "in use by another process", "run", "--home", d.home, "--listen", "/ip4/127.0.0.1/tcp/0")
	refused(t, exitFailed, "in use by another process", "crawl", "http://a.example/", "--home", d.home)
	if now, err := os.ReadFile(filepath.Join(d.home, "api.json")); err != nil || string(now) != string(client) {
		t.Errorf("api.json of the running peer was changed to %q, %v", now, err)
	}
	d.status()
	if code := d.terminate(10 * time.Second); code != exitOK {
		t.Errorf("status %d after SIGTERM", code)
	}
	// Nothing of it has damaged the other home.
	o := &daemon{t: t, home: other, flags: []string{"--listen", "/ip4/127.0.0.1/tcp/0"}}
	o.run()
	if code := o.terminate(10 * time.Second); code != exitOK {
		t.Errorf("status %d after SIGTERM", code)
	}
}

func TestStoreOfAnotherVersionIsRefused(t *testing.T) {
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
		refused(t, exitFailed, `written by another version of peerd: `, append(args, "--home", d.home)...)
	}
	write(string(right))
	d.run()
	if code := d.terminate(10 * time.Second); code != exitOK {
		t.Errorf("status %d after SIGTERM", code)
	}
}

// A home belongs to the network that it was first used in.
func TestHomeOfAnotherNetworkIsRefused(t *testing.T) {
	t.Parallel()
	profile := func(name string, more string) string {
		file := filepath.Join(t.TempDir(), name+".toml")
		text := fmt.Sprintf("name = %q\n[scope]\nmode = 'hosts'\nhosts = ['a.example'%s]\n", name, more)
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
	refused(t, exitUsage, want, run...)
	refused(t, exitUsage, want, append(run, "--profile", profile("docs", ", 'b.example'"))...)
	refused(t, exitUsage, want, append(run, "--profile", profile("documents", ""))...)
	refused(t, exitUsage, want, "crawl", "http://a.example/", "--home", d.home)
	d.flags[len(d.flags)-1] = profile("docs", ", 'A.example'") // the same rules, told otherwise
	d.run()
	if now := d.status().Network; now != network {
		t.Errorf("it is in %s, and was in %s", now, network)
	}
	d.terminate(10 * time.Second)
}

func TestHomeOfAnotherCrawlIsRefused(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 2, Pages: 4, Seed: 23, MinDelay: time.Millisecond}, 105)
	home := filepath.Join(t.TempDir(), "home")
	crawlOf(t, w, home, flags)
	first, second := w.Sites()[0].URL, w.Sites()[1].URL
	with := func(args ...string) []string {
		return append(append([]string{"crawl", "--home", home}, args...), flags...)
	}
	const want = "the home belongs to another network: it was used for one-shot-"
	refused(t, exitUsage, want, with(second)...)
	refused(t, exitUsage, want, with(first, second)...)
	refused(t, exitUsage, want, with(first, "--scope", "domain")...)
	refused(t, exitUsage, want, "run", "--home", home, "--listen", "/ip4/127.0.0.1/tcp/0")
	peerd(t, with(first+"elsewhere", "--max-pages", "9")...) // the rules are the same
}
