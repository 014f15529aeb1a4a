//go:build integration

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A plug-in that is published at one peer runs at another that trusts its publisher: it finds a
// page that no crawler finds, and its field is in the archive. A peer that does not trust the
// publisher neither has nor runs it. One that fails is switched off, and the crawl continues.
func TestPlugin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	module := func(pkg string) string {
		t.Helper()
		file := filepath.Join(dir, filepath.Base(pkg)+".wasm")
		build := exec.Command("go", "build", "-p", "2", "-buildvcs=false", "-trimpath",
			"-ldflags=-s -w", "-o", file, "peerd/crawl/crawllet/"+pkg)
		build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		return file
	}
	sample, bad := module("sample"), module("testdata/badplugin")
	author := filepath.Join(dir, "author")
	peerd(t, "init", "--home", author)
	sign := func(version, file string) (pkg, id string) {
		t.Helper()
		pkg = filepath.Join(dir, "jsonld"+version)
		out := peerd(t, "plugin", "sign", "--home", author, "--name", "jsonld", "--version",
			version, "-o", pkg, file)
		_, id, _ = strings.Cut(strings.TrimSpace(out), "publisher ")
		if !strings.HasPrefix(id, "12D3") {
			t.Fatalf("sign printed %q", out)
		}
		return pkg, id
	}
	pkg, id := sign("1", sample)

	profile := filepath.Join(dir, "plugin.toml")
	if err := os.WriteFile(profile, []byte("name = 'plugin'\n[scope]\nmode = 'any'\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--profile", profile, "--allow-net", "127.113.0.0/16", "--min-delay", "5ms",
		"--strategy", "keep"}
	addr := freeAddr(t, 37)
	first := newDaemon(t, append([]string{"--listen", addr}, flags...)...)
	trust := fmt.Sprintf("[plugins]\npublishers = [%q]\n", id)
	appendSettings(t, first.home, trust)
	first.run()
	boot := []string{"--bootstrap", addr + "/p2p/" + first.status().PeerID}
	second := newDaemon(t, append(append([]string{"--listen", freeAddr(t, 38)}, boot...),
		flags...)...)
	appendSettings(t, second.home, trust+"[archive]\nenabled = true\n")
	second.run()
	third := newDaemon(t, append(append([]string{"--listen", freeAddr(t, 39)}, boot...),
		flags...)...)
	third.run()

	if _, stderr, code := tryPeerd(t, "plugin", "publish", "--home", third.home, pkg); code == 0 ||
		!strings.Contains(stderr, "plugins.publishers") {
		t.Errorf("published at a peer that does not trust the publisher: status %d, %s", code,
			stderr)
	}
	peerd(t, "plugin", "publish", "--home", first.home, pkg)
	started := func(d *daemon) int { return strings.Count(d.stderrText(), "started plug-in") }
	eventually(t, 5*time.Minute, "the plug-in runs at the second peer", func() (bool, any) {
		return started(second) == 1, peerd(t, "plugin", "list", "--home", second.home)
	})

	root := t.TempDir()
	for name, text := range map[string]string{
		"index.html": `<meta name="description" content="About pears"><script ` +
			`type="application/ld+json">{"@type":"Fruit","url":"/hidden.html"}</script>`,
		"hidden.html": `<a href="/last.html">last</a>`, "last.html": "the end",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	site, other := serveFiles(t, "127.113.1.1:0", root), serveFiles(t, "127.113.2.1:0", root)
	peerd(t, "seed", "--home", second.home, site.URL+"/")
	eventually(t, 3*time.Minute, "the page that only the plug-in finds is fetched",
		func() (bool, any) { return site.fetched()["/last.html"] == 1, site.fetched() })
	z, err := gzip.NewReader(strings.NewReader(peerd(t, "export", "warc", "--home", second.home)))
	if err != nil {
		t.Fatal(err)
	}
	if warc, err := io.ReadAll(z); err != nil ||
		!bytes.Contains(warc, []byte("jsonld-description: About pears\r\n")) {
		t.Errorf("the archive has no field of the plug-in, %v", err)
	}
	peerd(t, "seed", "--home", third.home, other.URL+"/")
	eventually(t, 3*time.Minute, "the third peer fetches", func() (bool, any) {
		return other.fetched()["/"] == 1 && left(third.status()) == 0, other.fetched()
	})
	if n := other.fetched()["/hidden.html"]; n > 0 || started(third) > 0 {
		t.Errorf("the third peer fetched the page %d times and started %d plug-ins", n,
			started(third))
	}
	if list := peerd(t, "plugin", "list", "--home", third.home); list != "" {
		t.Errorf("plug-ins of the third peer: %q", list)
	}

	pkg, _ = sign("2", bad)
	peerd(t, "plugin", "publish", "--home", second.home, pkg)
	eventually(t, 5*time.Minute, "the next version runs", func() (bool, any) {
		return started(second) == 2, peerd(t, "plugin", "list", "--home", second.home)
	})
	for name, text := range map[string]string{"crash": "<html><a href=/after.html>after</a>",
		"after.html": "after"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	peerd(t, "seed", "--home", second.home, site.URL+"/crash")
	eventually(t, 3*time.Minute, "the crawl continues", func() (bool, any) {
		return site.fetched()["/after.html"] == 1, site.fetched()
	})
	eventually(t, 3*time.Minute, "the plug-in is off", func() (bool, any) {
		list := peerd(t, "plugin", "list", "--home", second.home)
		return strings.Contains(list, "off: crawllet: crashed"), list
	})
}
